import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { BusyError, FairQueue, WaitBudget } from './fair-queue.ts';

/** A job whose name is `namespace/user/resource` and a number. */
class Job {
  readonly name: string;
  busy: BusyError | undefined = undefined;

  constructor(name: string) {
    this.name = name;
  }
}

function queueOf(capacity: number, ...names: readonly string[]) {
  const queue = new FairQueue<Job>(capacity, 2);
  const jobs = new Map<string, Job>();
  const add = (name: string, waitMs?: number): Job => {
    const job = new Job(name);
    const [namespace = '', user = '', resource = ''] = name.replace(/\d+$/, '').split('/');
    jobs.set(name, job);
    queue.add(job, new WaitBudget(namespace, user, waitMs), resource, (error) => {
      job.busy = error;
    });
    return job;
  };
  for (const name of names) add(name);
  return { queue, add, job: (name: string) => jobs.get(name) ?? new Job(name) };
}

function takeAll(queue: FairQueue<Job>, isEligible?: (resource: string) => boolean): string[] {
  const names: string[] = [];
  for (let job = queue.take(isEligible); job; job = queue.take(isEligible)) names.push(job.name);
  return names;
}

describe('a fair queue', () => {
  it.each(['', 'n/', 'n/u/'])('serves keys in turn and the jobs of a key in order, at the level after %j', (prefix) => {
    const names = ['a1', 'a2', 'a3', 'b1', 'c1', 'c2'].map((name) => `${prefix}${name}`);
    expect(takeAll(queueOf(9, ...names).queue)).toEqual(
      ['a1', 'b1', 'c1', 'a2', 'c2', 'a3'].map((name) => `${prefix}${name}`),
    );
  });

  it('gives a namespace with many users as many turns as one with a single user', () => {
    const { queue } = queueOf(9, 'a/u1', 'a/v1', 'a/w1', 'b/u1', 'b/u2', 'b/u3');
    expect(takeAll(queue)).toEqual(['a/u1', 'b/u1', 'a/v1', 'b/u2', 'a/w1', 'b/u3']);
  });

  it('skips resources that are not eligible; they keep their turn', () => {
    const { queue } = queueOf(9, 'n/u/a1', 'n/u/a2', 'n/u/b1', 'm/u/b2');
    expect(takeAll(queue, (resource) => resource === 'b')).toEqual(['n/u/b1', 'm/u/b2']);
    expect(queue.size).toBe(2);
    expect(takeAll(queue)).toEqual(['n/u/a1', 'n/u/a2']);
  });

  it('serves newly added keys before the key that had the last turn, and adding a job gives no extra turn', () => {
    const { queue, add } = queueOf(9, 'a1', 'a2');
    expect(queue.take()?.name).toBe('a1');
    add('b1');
    expect(takeAll(queue)).toEqual(['b1', 'a2']);
    const again = queueOf(9, 'a1', 'b1', 'b2');
    expect(again.queue.take()?.name).toBe('a1');
    again.add('a2');
    expect(takeAll(again.queue)).toEqual(['b1', 'a2', 'b2']);
  });

  it('remembers the last turn at each level when it becomes empty', () => {
    const { queue, add } = queueOf(9, 'n/u/a1');
    expect(queue.take()?.name).toBe('n/u/a1');
    for (const name of ['n/u/a2', 'n/u/b1', 'n/v/a1', 'm/u/a1']) add(name);
    expect(takeAll(queue)).toEqual(['m/u/a1', 'n/v/a1', 'n/u/b1', 'n/u/a2']);
  });

  it('removes a pending job', () => {
    const { queue, job } = queueOf(9, 'a1', 'a2', 'b1');
    expect([queue.remove(job('a1')), queue.remove(job('a1')), queue.remove(job('b1'))]).toEqual([true, false, true]);
    expect(queue.remove(new Job('a2'))).toBe(false);
    expect(queue.size).toBe(1);
    expect(takeAll(queue)).toEqual(['a2']);
    expect(queue.size).toBe(0);
  });
});

describe('a full queue', () => {
  const busy = (...jobs: readonly Job[]) => jobs.filter((job) => job.busy).map(({ name }) => name);

  it('has no room for a namespace and a user with their share', () => {
    const { queue, add } = queueOf(2, 'a/u1', 'b/u1');
    expect(busy(add('a/u2'), add('b/u2'))).toEqual(['a/u2', 'b/u2']);
    expect(queue.size).toBe(2);
  });

  it('replaces the newest job of the largest namespace and its largest user by one of a smaller namespace', () => {
    const { queue, add, job } = queueOf(4, 'a/u1', 'a/v1', 'a/v2', 'a/u2');
    const added = [add('b/u1'), add('b/u2'), add('b/u3')];
    expect(busy(...added, ...['a/u1', 'a/v1', 'a/v2', 'a/u2'].map(job))).toEqual(['b/u3', 'a/v2', 'a/u2']);
    expect(takeAll(queue)).toEqual(['a/u1', 'b/u1', 'a/v1', 'b/u2']);
  });

  it('replaces the newest job of the largest user of the namespace by one of a smaller user', () => {
    const { queue, add, job } = queueOf(3, 'a/u1', 'a/u2', 'a/u3');
    expect(busy(add('a/v1'), ...['a/u1', 'a/u2', 'a/u3'].map(job))).toEqual(['a/u3']);
    expect(takeAll(queue)).toEqual(['a/u1', 'a/v1', 'a/u2']);
  });

  it('estimates when there will be room from the duration of jobs', () => {
    const { queue, add } = queueOf(100, ...Array.from({ length: 100 }, (_, at) => `a${at}`));
    expect(add('a').busy?.retryAfterMs).toBe(1_000);
    for (let job = 0; job < 100; job++) queue.served(200);
    expect(add('a').busy?.retryAfterMs).toBeGreaterThan(9_000);
    for (let job = 0; job < 100; job++) queue.served(60_000);
    expect(add('a').busy?.retryAfterMs).toBe(30_000);
  });
});

describe('waiting time', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('ends the wait of a job, not that of others', () => {
    const { queue, add } = queueOf(9);
    const [short, long] = [add('a1', 100), add('a2', 200)];
    vi.advanceTimersByTime(100);
    expect([short.busy, long.busy]).toEqual([expect.any(BusyError), undefined]);
    expect(takeAll(queue)).toEqual(['a2']);
    vi.advanceTimersByTime(1_000);
    expect(long.busy).toBeUndefined();
  });

  it('is counted over all queues of a request', () => {
    const budget = new WaitBudget('a', '', 100);
    const queue = new FairQueue<Job>(9, 1);
    const reasons: BusyError[] = [];
    for (const _ of ['first', 'second']) {
      queue.add(new Job('a'), budget, '', (error) => reasons.push(error));
      vi.advanceTimersByTime(40);
      queue.take();
    }
    expect([budget.remainingMs, reasons]).toEqual([20, []]);
    queue.add(new Job('a'), budget, '', (error) => reasons.push(error));
    vi.advanceTimersByTime(20);
    expect([budget.remainingMs, reasons.length, queue.size]).toEqual([0, 1, 0]);
    queue.add(new Job('a'), budget, '', (error) => reasons.push(error));
    expect([reasons.length, queue.size]).toEqual([2, 0]);
  });
});

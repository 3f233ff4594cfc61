import { describe, expect, it } from 'vitest';
import { FairQueue } from './fair-queue.ts';

/** A queue of jobs whose first character is their key. */
function queueOf(...jobs: readonly string[]): FairQueue<string> {
  const queue = new FairQueue<string>();
  for (const job of jobs) queue.add(job.charAt(0), job);
  return queue;
}

function takeAll(queue: FairQueue<string>, isEligible?: (key: string) => boolean): string[] {
  const jobs: string[] = [];
  for (let job = queue.next(isEligible); job; job = queue.next(isEligible)) jobs.push(job);
  return jobs;
}

describe('a fair queue', () => {
  it('serves keys in turn and the jobs of a key in order', () => {
    expect(takeAll(queueOf('a1', 'a2', 'a3', 'b1', 'c1', 'c2'))).toEqual(['a1', 'b1', 'c1', 'a2', 'c2', 'a3']);
  });

  it('skips keys that are not eligible; they keep their turn', () => {
    const queue = queueOf('a1', 'a2', 'b1', 'b2');
    expect(takeAll(queue, (key) => key === 'b')).toEqual(['b1', 'b2']);
    expect(queue.size).toBe(2);
    expect(takeAll(queue)).toEqual(['a1', 'a2']);
  });

  it('serves newly added keys before the key that had the last turn, and adding a job gives no extra turn', () => {
    const queue = queueOf('a1', 'a2');
    expect(queue.next()).toBe('a1');
    queue.add('b', 'b1');
    expect(takeAll(queue)).toEqual(['b1', 'a2']);
    const again = queueOf('a1', 'b1', 'b2');
    expect(again.next()).toBe('a1');
    again.add('a', 'a2');
    expect(takeAll(again)).toEqual(['b1', 'a2', 'b2']);
  });

  it('counts pending jobs, in total and by key', () => {
    const queue = queueOf('a1', 'a2', 'b1');
    const sizes = () => [queue.size, ...['a', 'b', 'c'].map((key) => queue.sizeOf(key))];
    expect(sizes()).toEqual([3, 2, 1, 0]);
    queue.next();
    expect(sizes()).toEqual([2, 1, 1, 0]);
    expect(queue.next(() => false)).toBeUndefined();
    expect(sizes()).toEqual([2, 1, 1, 0]);
    takeAll(queue);
    expect(sizes()).toEqual([0, 0, 0, 0]);
    expect(queue.next()).toBeUndefined();
  });

  it('removes a pending job', () => {
    const queue = queueOf('a1', 'a2', 'b1');
    expect([queue.remove('a', 'a1'), queue.remove('a', 'a1'), queue.remove('b', 'b1')]).toEqual([true, false, true]);
    expect([queue.remove('b', 'b1'), queue.remove('c', 'c1')]).toEqual([false, false]);
    expect([queue.size, queue.sizeOf('a'), queue.sizeOf('b')]).toEqual([1, 1, 0]);
    expect(takeAll(queue)).toEqual(['a2']);
    const others = queueOf('a1', 'b1');
    others.remove('a', 'a1');
    expect([takeAll(others), others.size]).toEqual([['b1'], 0]);
  });
});

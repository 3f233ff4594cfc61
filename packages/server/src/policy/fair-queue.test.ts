import { describe, expect, it } from 'vitest';
import { FairQueue } from './fair-queue.ts';

/** Jobs are named after whose they are. */
function queueOf(...jobs: readonly string[]): FairQueue<string> {
  const queue = new FairQueue<string>();
  for (const job of jobs) queue.add(job.charAt(0), job);
  return queue;
}

function taken(queue: FairQueue<string>, may?: (whose: string) => boolean): string[] {
  const jobs: string[] = [];
  for (let job = queue.take(may); job; job = queue.take(may)) jobs.push(job);
  return jobs;
}

describe('a fair queue', () => {
  it('takes turns, and keeps the order of each', () => {
    expect(taken(queueOf('a1', 'a2', 'a3', 'b1', 'c1', 'c2'))).toEqual(['a1', 'b1', 'c1', 'a2', 'c2', 'a3']);
  });

  it('passes over those who may not, who keep their turn', () => {
    const queue = queueOf('a1', 'a2', 'b1', 'b2');
    expect(taken(queue, (whose) => whose === 'b')).toEqual(['b1', 'b2']);
    expect(queue.size).toBe(2);
    expect(taken(queue)).toEqual(['a1', 'a2']);
  });

  it('gives nobody a second turn before whoever came meanwhile, nor for coming again', () => {
    const queue = queueOf('a1', 'a2');
    expect(queue.take()).toBe('a1');
    queue.add('b', 'b1');
    expect(taken(queue)).toEqual(['b1', 'a2']);
    const again = queueOf('a1', 'b1', 'b2');
    expect(again.take()).toBe('a1');
    again.add('a', 'a2');
    expect(taken(again)).toEqual(['b1', 'a2', 'b2']);
  });

  it('knows how many wait, in all and of each', () => {
    const queue = queueOf('a1', 'a2', 'b1');
    const sizes = () => [queue.size, ...['a', 'b', 'c'].map((whose) => queue.sizeOf(whose))];
    expect(sizes()).toEqual([3, 2, 1, 0]);
    queue.take();
    expect(sizes()).toEqual([2, 1, 1, 0]);
    expect(queue.take(() => false)).toBeUndefined();
    expect(sizes()).toEqual([2, 1, 1, 0]);
    taken(queue);
    expect(sizes()).toEqual([0, 0, 0, 0]);
    expect(queue.take()).toBeUndefined();
  });

  it('lets go of a job that nobody waits for', () => {
    const queue = queueOf('a1', 'a2', 'b1');
    expect([queue.remove('a', 'a1'), queue.remove('a', 'a1'), queue.remove('b', 'b1')]).toEqual([true, false, true]);
    expect([queue.remove('b', 'b1'), queue.remove('c', 'c1')]).toEqual([false, false]);
    expect([queue.size, queue.sizeOf('a'), queue.sizeOf('b')]).toEqual([1, 1, 0]);
    expect(taken(queue)).toEqual(['a2']);
    const others = queueOf('a1', 'b1');
    others.remove('a', 'a1');
    expect([taken(others), others.size]).toEqual([['b1'], 0]);
  });
});

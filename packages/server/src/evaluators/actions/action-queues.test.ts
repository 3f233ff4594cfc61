import { describe, expect, it } from 'vitest';
import { ActionQueues } from './action-queues.ts';
import type { Action } from './action-world.ts';

interface Job {
  readonly action: Action;
  readonly name: string;
}

/** Jobs named after their actions. */
function queuesOf(...names: readonly string[]): ActionQueues<Job> {
  const queues = new ActionQueues<Job>();
  for (const name of names) {
    queues.add({ action: { checksum: name.charAt(0), glue: '', modules: [] }, name });
  }
  return queues;
}

function taken(queues: ActionQueues<Job>, may: (checksum: string) => boolean = () => true): string[] {
  const names: string[] = [];
  for (let job = queues.take(may); job; job = queues.take(may)) names.push(job.name);
  return names;
}

describe('queues of actions', () => {
  it('take turns between actions, and keep the order of each', () => {
    expect(taken(queuesOf('a1', 'a2', 'a3', 'b1', 'c1', 'c2'))).toEqual(['a1', 'b1', 'c1', 'a2', 'c2', 'a3']);
  });

  it('pass over actions that may not, which keep their turn', () => {
    const queues = queuesOf('a1', 'a2', 'b1', 'b2');
    expect(taken(queues, (checksum) => checksum === 'b')).toEqual(['b1', 'b2']);
    expect(queues.size).toBe(2);
    expect(taken(queues)).toEqual(['a1', 'a2']);
  });

  it('give nobody a second turn for coming again', () => {
    const queues = queuesOf('a1', 'b1', 'b2');
    expect(queues.take(() => true)?.name).toBe('a1');
    queues.add({ action: { checksum: 'a', glue: '', modules: [] }, name: 'a2' });
    expect(taken(queues)).toEqual(['b1', 'a2', 'b2']);
  });

  it('know how many wait, in all and of each action', () => {
    const queues = queuesOf('a1', 'a2', 'b1');
    expect([queues.size, queues.sizeOf('a'), queues.sizeOf('b'), queues.sizeOf('c')]).toEqual([3, 2, 1, 0]);
    queues.take(() => true);
    expect([queues.size, queues.sizeOf('a'), queues.sizeOf('b')]).toEqual([2, 1, 1]);
    expect(queues.take(() => false)).toBeUndefined();
    expect(queues.size).toBe(2);
    taken(queues);
    expect([queues.size, queues.sizeOf('a'), queues.sizeOf('b')]).toEqual([0, 0, 0]);
    expect(queues.take(() => true)).toBeUndefined();
  });

  it('give away all that are left', () => {
    const queues = queuesOf('a1', 'b1', 'a2');
    expect(
      queues
        .drain()
        .map(({ name }) => name)
        .sort(),
    ).toEqual(['a1', 'a2', 'b1']);
    expect([queues.size, queues.sizeOf('a'), queues.drain()]).toEqual([0, 0, []]);
  });
});

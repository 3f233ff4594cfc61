import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Action, ActionCompileError } from './action-world.ts';
import { actionTests, children, peakOf } from './fixtures/action-tests.ts';
import type { HostileAction, HostileOutcome } from './fixtures/hostile/hostile-action.ts';
import { hostileActions } from './fixtures/hostile-actions.ts';
import { toolchains } from './fixtures/ordinary-actions.ts';

const before = children();
/** The most that a process was seen to have, by process id; MiB. */
const peaks = new Map<number, number>();
const look = () => {
  for (const pid of hosts.pids) peaks.set(pid, Math.max(peakOf(pid), peaks.get(pid) ?? 0));
};

// After the hosts were closed: what is registered first is done last.
afterAll(() => {
  expect(children().filter((pid) => !before.includes(pid))).toEqual([]);
});

const { compiler, hosts, end } = actionTests();

describe.each(Object.entries(hostileActions))('%s', (_kind, actions) => {
  let ordinary: Action;
  const watch = setInterval(look, 5);

  beforeAll(async () => {
    ordinary = await compiler.compile(await toolchains.wat());
  });

  afterAll(() => {
    clearInterval(watch);
    expect(Math.max(...peaks.values())).toBeGreaterThan(10);
    expect([...peaks].filter(([, mebibytes]) => mebibytes >= 256)).toEqual([]);
  });

  it.each(actions)('$name', async (action) => {
    expect(action.outcomes).toContainEqual(await outcome(action));
    look();
    // Whoever comes next is not harmed.
    expect(await end(ordinary, 'block:mine')).toEqual({ response: { kind: 'block', reason: 'mine' } });
  });
});

async function outcome({ file }: HostileAction): Promise<HostileOutcome> {
  let action: Action;
  try {
    action = await compiler.compile(await file());
  } catch (error) {
    if (error instanceof ActionCompileError) return { stage: 'compile' };
    throw error;
  }
  return { stage: 'run', ...(await end(action, 'a text of the LLM')) };
}

import { beforeAll, describe, expect, it } from 'vitest';
import { type Action, ActionCompileError } from './action.ts';
import { actionTests } from './fixtures/action-tests.ts';
import type { HostileAction, HostileOutcome } from './fixtures/hostile/hostile-action.ts';
import { hostileActions } from './fixtures/hostile-actions.ts';
import { toolchains } from './fixtures/ordinary-actions.ts';

// What is left of memory and of processes, it looks at when all is done.
const { compiler, end, within } = actionTests({ compileMs: 10_000 });

describe.each(Object.entries(hostileActions))('%s', (_kind, actions) => {
  let ordinary: Action;

  beforeAll(async () => {
    ordinary = await compiler.compile(await toolchains.wat());
  });

  it.each(actions)('$name', async (action) => {
    expect(action.outcomes).toContainEqual(await outcome(action));
    // Whoever comes next is not harmed.
    expect(await end(ordinary, 'block:mine')).toEqual({ response: { kind: 'block', reason: 'mine' } });
  });
});

async function outcome({ file, outcomes }: HostileAction): Promise<HostileOutcome> {
  let action: Action;
  try {
    action = await compiler.compile(await file());
  } catch (error) {
    if (error instanceof ActionCompileError) return { stage: 'compile' };
    throw error;
  }
  return { stage: 'run', ...(await within(runMs(outcomes), () => end(action, 'a text of the LLM'))) };
}

/** What never ends of itself is ended soon; all else has the time that it takes. */
function runMs(outcomes: readonly HostileOutcome[]): number {
  const overruns = outcomes.filter((each) => 'fault' in each && each.fault === 'timeout');
  if (overruns.length === 0) return 30_000;
  return overruns.length === outcomes.length ? 300 : 600;
}

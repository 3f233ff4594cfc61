import { expect, it } from 'vitest';
import { endless } from '../packages/server/src/policy/sandbox/fixtures/hostile/loops.ts';
import { greedy } from '../packages/server/src/policy/sandbox/fixtures/hostile/memory.ts';
import { traps } from '../packages/server/src/policy/sandbox/fixtures/hostile/traps.ts';
import { runEvaluators } from './campaign/evaluators.ts';

it('hostile actions and updates under load affect no other request, leak no memory and leave no processes', async () => {
  // Some of each kind, one of them rejected; the campaign has them all.
  const actions = [
    ...endless.slice(0, 2),
    ...greedy.slice(0, 1),
    ...greedy.slice(4, 5),
    ...traps.slice(0, 2),
    ...traps.slice(7, 9),
  ];
  const run = await runEvaluators({ actions, rounds: 1, updates: 50, callers: 8 }, () => undefined);
  expect(run.failures).toEqual([]);
  expect(run.rounds).toMatchObject([{ rejected: 1, evaluated: 14 }]);
  // Requests were in flight while their set was replaced, and tools were listed.
  expect(run.updates.evaluatedByReplaced).toBeGreaterThan(0);
  expect(run.probed.times.length).toBeGreaterThan(0);
}, 120_000);

import type { Evaluator } from '@sluice/contract';
import { expect, test } from 'vitest';
import { compareEvaluators } from './desired-evaluators.ts';

const evaluator = (name: string, changed: object = {}): Evaluator => ({
  name,
  trigger: { method: 'tools/call', namespace: 'default' },
  llm: { operation: 'classify', prompt: 'p', connection: 'model', result_schema: null },
  processor: { path: 'ok.wasm' },
  on_error: 'block',
  ...changed,
});

const [first, second, third] = [evaluator('first'), evaluator('second'), evaluator('third')];
const names = (list: readonly Evaluator[] | undefined) => list?.map(({ name }) => name);

test.each<[string, Evaluator, Evaluator, string[] | undefined]>([
  ['errors let requests pass', first, evaluator('first', { on_error: 'allow' }), ['may loosen an evaluator']],
  ['errors block requests', evaluator('first', { on_error: 'allow' }), first, undefined],
  [
    'only requests of another namespace are evaluated',
    first,
    evaluator('first', { trigger: { method: 'tools/call', namespace: 'other' } }),
    ['may loosen an evaluator'],
  ],
  [
    'requests of all namespaces are evaluated',
    first,
    evaluator('first', { trigger: { method: 'tools/call' } }),
    undefined,
  ],
  [
    'requests of all namespaces are evaluated, for another method',
    first,
    evaluator('first', { trigger: { method: 'prompts/get' } }),
    ['may loosen an evaluator'],
  ],
  [
    'the model gets another prompt',
    first,
    evaluator('first', { llm: { ...first.llm, prompt: 'q' } }),
    ['may loosen an evaluator'],
  ],
  ['another action decides', first, evaluator('first', { processor: { path: 'b.wasm' } }), ['may loosen an evaluator']],
])('an update widens what agents can use unless it cannot let more requests pass: %s', (_, before, after, widens) => {
  const { changes, updated } = compareEvaluators([after], [before], false);
  expect(changes).toEqual([expect.objectContaining({ action: 'update', name: 'first', ...(widens && { widens }) })]);
  expect(changes[0]?.widens).toEqual(widens);
  expect(updated).toEqual([after]);
});

test('a new evaluator widens nothing, a deleted one does', () => {
  const { changes, updated, remaining } = compareEvaluators([second], [first], true);
  expect(changes).toMatchObject([
    { action: 'create', name: 'second' },
    { action: 'delete', name: 'first', widens: ['removes an evaluator'] },
  ]);
  expect(changes[0]?.widens).toBeUndefined();
  expect([names(updated), names(remaining)]).toEqual([['first', 'second'], ['second']]);
});

test('a new order takes the places of the named ones, leaves the others where they are, and widens nothing', () => {
  const { changes, updated, remaining } = compareEvaluators([third, first], [first, second, third], false);
  expect(changes.map(({ name, members, widens }) => ({ name, members, widens }))).toEqual([
    { name: 'third', members: [{ member: 'position', from: 3, to: 1 }], widens: undefined },
    { name: 'first', members: [{ member: 'position', from: 1, to: 3 }], widens: undefined },
  ]);
  expect([names(updated), remaining]).toEqual([['third', 'second', 'first'], undefined]);
});

test('the present evaluators make no change', () => {
  expect(compareEvaluators([first, second], [first, second], true)).toEqual({
    changes: [],
    updated: undefined,
    remaining: undefined,
  });
});

import type { StateForward } from '@sluice/contract';
import { expect, test } from 'vitest';
import { applyStateInSteps } from './desired-state.ts';
import { DEFAULT_NAMESPACE } from './entries.ts';
import { commit } from './fixtures/commit.ts';
import { removeForward } from './fixtures/operations.ts';
import { addForward } from './operations-topology.ts';
import { Registry } from './registry.ts';
import { memoryLog } from './store/record-log.ts';

const INPUT = {
  name: 'up',
  address: 'http://up.test/mcp',
  namespace: DEFAULT_NAMESPACE,
  labels: { a: '1', b: '2' },
  prefix: '',
};

test('a name is registered once', async () => {
  const registry = new Registry(memoryLog());
  await commit(registry, (draft) => addForward(draft, INPUT));
  await expect(commit(registry, (draft) => addForward(draft, INPUT))).rejects.toMatchObject({
    code: 'CONFLICT',
    message: 'forward already exists: up',
  });
  await commit(registry, (draft) => removeForward(draft, 'up'));
  await expect(commit(registry, (draft) => removeForward(draft, 'up'))).rejects.toMatchObject({
    code: 'NOT_FOUND',
    message: 'forward not found: up',
  });
});

/** Applies a forward as the bootstrap file does. */
function boot(registry: Registry, forward: StateForward): Promise<unknown> {
  const checks = { requireUsable: () => undefined, requireSameOrigin: () => undefined };
  return commit(registry, (draft) => applyStateInSteps(draft, { forwards: [forward] }, { prune: false, checks }));
}

test('the bootstrap file leaves an equal forward unchanged and changes a different one in place', async () => {
  const registry = new Registry(memoryLog());
  await boot(registry, INPUT);
  const stored = registry.current.forwards.get('up');
  await boot(registry, { ...INPUT, labels: { b: '2', a: '1' } });
  expect(registry.current.forwards.get('up')).toBe(stored);
  await boot(registry, { ...INPUT, prefix: 'p.' });
  expect(registry.current.forwards.get('up')).toMatchObject({ prefix: 'p.' });
  expect(registry.current.forwards.get('up')?.registrationId).toBe(stored?.registrationId);
});

test('the bootstrap file changes only the headers that it names', async () => {
  const registry = new Registry(memoryLog());
  const change = async (changes: Partial<StateForward>) => {
    await boot(registry, { ...INPUT, ...changes });
    return registry.current.forwards.get('up')?.headers;
  };
  const [key, other] = [`$\{env:SERVICE_SECRET_A}`, `$\{file:b}`];
  expect(await change({ headers: { 'X-Key': key, 'x-none': null } })).toEqual({ 'X-Key': key });
  expect(await change({})).toEqual({ 'X-Key': key });
  expect(await change({ headers: { 'x-key': other, 'x-more': key } })).toEqual({ 'x-key': other, 'x-more': key });
  expect(await change({ headers: { 'X-More': null } })).toEqual({ 'x-key': other });
  expect(await change({ headers: null })).toBeUndefined();
});

import { expect, test } from 'vitest';
import { type BootstrapForward, bootstrapForward } from './change-forward.ts';
import { DEFAULT_NAMESPACE } from './entries.ts';
import { commit } from './fixtures/commit.ts';
import { removeForward } from './fixtures/operations.ts';
import { addForward } from './operations-topology.ts';
import { Registry } from './registry.ts';
import { memoryStore } from './store/store.ts';

const INPUT = {
  name: 'up',
  address: 'http://up.test/mcp',
  namespace: DEFAULT_NAMESPACE,
  labels: { a: '1', b: '2' },
  prefix: '',
};

test('a name is registered once', async () => {
  const registry = new Registry(memoryStore());
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

test('the bootstrap file leaves an equal forward unchanged and changes a different one in place', async () => {
  const registry = new Registry(memoryStore());
  const boot = (input: BootstrapForward) => commit(registry, (draft) => bootstrapForward(draft, input));
  await boot(INPUT);
  const stored = registry.current.forwards.get('up');
  await boot({ ...INPUT, labels: { b: '2', a: '1' } });
  expect(registry.current.forwards.get('up')).toBe(stored);
  await boot({ ...INPUT, prefix: 'p.' });
  expect(registry.current.forwards.get('up')).toMatchObject({ prefix: 'p.' });
  expect(registry.current.forwards.get('up')?.registrationId).toBe(stored?.registrationId);
});

test('the bootstrap file changes only the headers that it names', async () => {
  const registry = new Registry(memoryStore());
  const boot = async (change: Partial<BootstrapForward>) => {
    await commit(registry, (draft) => bootstrapForward(draft, { ...INPUT, ...change }));
    return registry.current.forwards.get('up')?.headers;
  };
  const [key, other] = [`$\{env:SERVICE_SECRET_A}`, `$\{file:b}`];
  expect(await boot({ headers: { 'X-Key': key, 'x-none': null } })).toEqual({ 'X-Key': key });
  expect(await boot({})).toEqual({ 'X-Key': key });
  expect(await boot({ headers: { 'x-key': other, 'x-more': key } })).toEqual({ 'x-key': other, 'x-more': key });
  expect(await boot({ headers: { 'X-More': null } })).toEqual({ 'x-key': other });
  expect(await boot({ headers: null })).toBeUndefined();
});

import { expect, test } from 'vitest';
import { bootstrapForward } from './change-forward.ts';
import { DEFAULT_NAMESPACE } from './entries.ts';
import { addForward, removeForward } from './operations-topology.ts';
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
  await registry.commit((draft) => addForward(draft, INPUT));
  await expect(registry.commit((draft) => addForward(draft, INPUT))).rejects.toMatchObject({
    code: 'CONFLICT',
    message: 'forward already exists: up',
  });
  await registry.commit((draft) => removeForward(draft, 'up'));
  await expect(registry.commit((draft) => removeForward(draft, 'up'))).rejects.toMatchObject({
    code: 'NOT_FOUND',
    message: 'forward not found: up',
  });
});

test('the bootstrap file leaves an equal forward unchanged and changes a different one in place', async () => {
  const registry = new Registry(memoryStore());
  const boot = (input: typeof INPUT) => registry.commit((draft) => bootstrapForward(draft, input));
  await boot(INPUT);
  const stored = registry.current.forwards.get('up');
  await boot({ ...INPUT, labels: { b: '2', a: '1' } });
  expect(registry.current.forwards.get('up')).toBe(stored);
  await boot({ ...INPUT, prefix: 'p.' });
  expect(registry.current.forwards.get('up')).toMatchObject({ prefix: 'p.' });
  expect(registry.current.forwards.get('up')?.registrationId).toBe(stored?.registrationId);
});

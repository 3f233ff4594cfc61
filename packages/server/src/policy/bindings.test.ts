import { expect, test } from 'vitest';
import { createNamespace, labelNamespace, removeNamespace } from '../registry/operations-topology.ts';
import { Registry } from '../registry/registry.ts';
import { memoryStore } from '../registry/store/store.ts';
import { NamespaceBindings } from './bindings.ts';

async function loaded(): Promise<{ registry: Registry; bindings: NamespaceBindings }> {
  const registry = new Registry(memoryStore());
  await registry.load();
  return { registry, bindings: new NamespaceBindings(registry) };
}

test('a namespace is bound to the conversation that was said last, until it is unbound', async () => {
  const { bindings } = await loaded();
  expect(bindings.get('default')).toBeUndefined();
  bindings.set('default', 'one');
  bindings.set('default', 'two');
  bindings.set('a', 'three');
  expect(bindings.get('default')).toBe('two');
  expect(bindings.size).toBe(2);
  expect(Object.entries(bindings.list())).toEqual([
    ['a', 'three'],
    ['default', 'two'],
  ]);
  bindings.delete('default');
  bindings.delete('default');
  expect(bindings.list()).toEqual({ a: 'three' });
});

test('a namespace that is deleted loses its binding, others keep theirs', async () => {
  const { registry, bindings } = await loaded();
  await registry.commit((draft) => createNamespace(draft, 'gone', {}));
  for (const name of ['gone', 'default', 'never-there']) bindings.set(name, name);
  await registry.commit((draft) => removeNamespace(draft, 'gone', false));
  expect(bindings.list()).toEqual({ default: 'default', 'never-there': 'never-there' });
});

test('a namespace that is made only after it was bound is bound, and loses it when it is deleted', async () => {
  const { registry, bindings } = await loaded();
  bindings.set('later', 'c');
  await registry.commit((draft) => createNamespace(draft, 'later', {}));
  expect(bindings.get('later')).toBe('c');
  await registry.commit((draft) => removeNamespace(draft, 'later', false));
  expect(bindings.get('later')).toBeUndefined();
});

test('nothing of the registry changes bindings that are closed', async () => {
  const { registry, bindings } = await loaded();
  await registry.commit((draft) => createNamespace(draft, 'gone', {}));
  bindings.set('gone', 'c');
  bindings.close();
  await registry.commit((draft) => removeNamespace(draft, 'gone', false));
  expect(bindings.get('gone')).toBe('c');
});

test('a namespace that is deleted and made again at once has lost its binding', async () => {
  const { registry, bindings } = await loaded();
  await registry.commit((draft) => createNamespace(draft, 'again', {}));
  bindings.set('again', 'of the first');
  await registry.commit((draft) => {
    removeNamespace(draft, 'again', false);
    createNamespace(draft, 'again', {});
  });
  expect(bindings.list()).toEqual({});
  bindings.set('again', 'of the second');
  await registry.commit((draft) => labelNamespace(draft, 'again', { a: 'b' }));
  expect(bindings.list()).toEqual({ again: 'of the second' });
});

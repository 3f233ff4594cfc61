import { expect, test } from 'vitest';
import { commit } from '../registry/fixtures/commit.ts';
import { removeNamespace } from '../registry/fixtures/operations.ts';
import { createNamespace, labelNamespace } from '../registry/operations-topology.ts';
import { Registry } from '../registry/registry.ts';
import { memoryLog } from '../registry/store/record-log.ts';
import { NamespaceBindings } from './bindings.ts';

async function loaded(): Promise<{ registry: Registry; bindings: NamespaceBindings }> {
  const registry = new Registry(memoryLog());
  await registry.load();
  return { registry, bindings: new NamespaceBindings(registry) };
}

test('a namespace is bound to the last conversation until it is unbound', async () => {
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

test('a deleted namespace loses its binding; others keep theirs', async () => {
  const { registry, bindings } = await loaded();
  await commit(registry, (draft) => createNamespace(draft, 'gone', {}));
  for (const name of ['gone', 'default', 'never-there']) bindings.set(name, name);
  await commit(registry, (draft) => removeNamespace(draft, 'gone', false));
  expect(bindings.list()).toEqual({ default: 'default', 'never-there': 'never-there' });
});

test('a namespace that is created after it was bound is bound, and loses its binding when it is deleted', async () => {
  const { registry, bindings } = await loaded();
  bindings.set('later', 'c');
  await commit(registry, (draft) => createNamespace(draft, 'later', {}));
  expect(bindings.get('later')).toBe('c');
  await commit(registry, (draft) => removeNamespace(draft, 'later', false));
  expect(bindings.get('later')).toBeUndefined();
});

test('closed bindings do not follow the registry', async () => {
  const { registry, bindings } = await loaded();
  await commit(registry, (draft) => createNamespace(draft, 'gone', {}));
  bindings.set('gone', 'c');
  bindings.close();
  await commit(registry, (draft) => removeNamespace(draft, 'gone', false));
  expect(bindings.get('gone')).toBe('c');
});

test('a namespace that is deleted and recreated in one commit loses its binding', async () => {
  const { registry, bindings } = await loaded();
  await commit(registry, (draft) => createNamespace(draft, 'again', {}));
  bindings.set('again', 'of the first');
  await commit(registry, (draft) => {
    removeNamespace(draft, 'again', false);
    createNamespace(draft, 'again', {});
  });
  expect(bindings.list()).toEqual({});
  bindings.set('again', 'of the second');
  await commit(registry, (draft) => labelNamespace(draft, 'again', { a: 'b' }));
  expect(bindings.list()).toEqual({ again: 'of the second' });
});

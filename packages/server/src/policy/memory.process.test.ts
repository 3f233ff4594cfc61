import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Evaluator } from '@sluice/contract';
import { expect, test } from 'vitest';
import { Evaluators } from './evaluator-set.ts';
import { definition } from './fixtures/definition.ts';
import { PrefixCompiler } from './fixtures/prefix-compiler.ts';
import { ActionFiles } from './load.ts';
import { revisionsInMemory } from './revision-store.ts';

const MIB = 1024 * 1024;

setFlagsFromString('--expose-gc');
const collect: unknown = runInNewContext('gc');

/** Bytes of the heap, without what can be collected. */
function used(): number {
  if (typeof collect === 'function') collect();
  return process.memoryUsage().heapUsed;
}

/** 300 kB as text, more than 5 MiB as objects. */
function large(connection = 'model'): Evaluator[] {
  const one = definition('a', '/gone.wasm');
  const result_schema = { examples: Array.from({ length: 100_000 }, () => ({})) };
  return [{ ...one, llm: { ...one.llm, connection, result_schema } }];
}

/** Evaluators whose schemas are compiled when `ready` is resolved. */
function made(ready: Promise<void>): Evaluators {
  return new Evaluators({
    connections: [{ name: 'model', model: 'm', url: 'http://h' }],
    files: new ActionFiles({ baseFolder: '/', actionsPath: undefined }),
    compiling: new PrefixCompiler(),
    schemas: { compile: () => ready.then(() => ({ text: '', validate: async () => undefined })) },
    store: revisionsInMemory(),
    log: { info: () => {}, warn: () => {} },
  });
}

const NOBODY = { expectedRevision: undefined, actor: undefined };

test('revisions of large evaluators take the memory of their text, rejected ones too', async () => {
  const evaluators = made(Promise.resolve());
  const before = used();
  for (let count = 0; count < 50; count++) {
    const update = evaluators.replace(large(count % 2 === 0 ? 'model' : 'another'), NOBODY);
    await update.catch(() => {});
  }
  expect(evaluators.revisions).toHaveLength(50);
  await expect.poll(() => used() - before, { timeout: 10_000 }).toBeLessThan(50 * MIB);
  expect(evaluators.revisions.filter(({ status }) => status === 'rejected')).toHaveLength(25);
});

test('updates that wait for another one take the memory of their text', async () => {
  const ready = Promise.withResolvers<void>();
  const evaluators = made(ready.promise);
  const before = used();
  const updates: Promise<unknown>[] = [];
  for (let count = 0; count < 50; count++) updates.push(evaluators.replace(large(), NOBODY));
  await expect.poll(() => used() - before, { timeout: 10_000 }).toBeLessThan(50 * MIB);
  ready.resolve();
  await Promise.all(updates);
  expect(evaluators.activeRevision?.id).toBe(50);
});

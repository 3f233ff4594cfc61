import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Evaluator } from '@sluice/contract';
import { expect, test } from 'vitest';
import { memoryRevisionStore } from '../registry/store/fixtures/memory-revision-store.ts';
import { ActionFiles } from './action-loader.ts';
import { Evaluators } from './evaluators.ts';
import { evaluatorDefinition } from './fixtures/evaluator-definition.ts';
import { PrefixCompiler } from './fixtures/prefix-compiler.ts';

const MIB = 1024 * 1024;

setFlagsFromString('--expose-gc');
const collect: unknown = runInNewContext('gc');

/** Bytes of the heap after garbage collection. */
function used(): number {
  if (typeof collect === 'function') collect();
  return process.memoryUsage().heapUsed;
}

/** 300 kB as text, more than 5 MiB as objects. */
function large(connection = 'model'): Evaluator[] {
  const one = evaluatorDefinition('a', '/gone.wasm');
  const result_schema = { examples: Array.from({ length: 100_000 }, () => ({})) };
  return [{ ...one, llm: { ...one.llm, connection, result_schema } }];
}

/** Evaluators whose schemas are compiled when `ready` resolves. */
function made(ready: Promise<void>): Evaluators {
  return new Evaluators({
    connections: [{ name: 'model', model: 'm', url: 'http://h' }],
    files: new ActionFiles({ baseFolder: '/', actionsPath: undefined }),
    compiler: new PrefixCompiler(),
    schemas: { compile: () => ready.then(() => ({ text: '', validate: async () => undefined })) },
    store: memoryRevisionStore(),
    log: { info: () => {}, warn: () => {}, error: () => {} },
  });
}

const NOBODY = { expectedRevision: undefined, actor: undefined };

test('revisions of large evaluators, also rejected ones, take the memory of their text', {
  tags: ['slow'],
}, async () => {
  const evaluators = made(Promise.resolve());
  const before = used();
  for (let count = 0; count < 50; count++) {
    const update = evaluators.replace(large(count % 2 === 0 ? 'model' : 'another'), NOBODY);
    await update.catch(() => {});
  }
  expect(evaluators.history.list).toHaveLength(50);
  await expect.poll(() => used() - before, { timeout: 10_000 }).toBeLessThan(50 * MIB);
  expect(evaluators.history.list.filter(({ status }) => status === 'rejected')).toHaveLength(25);
});

test('queued updates take the memory of their text', { tags: ['slow'] }, async () => {
  const ready = Promise.withResolvers<void>();
  const evaluators = made(ready.promise);
  const before = used();
  const updates: Promise<unknown>[] = [];
  for (let count = 0; count < 50; count++) updates.push(evaluators.replace(large(), NOBODY));
  await expect.poll(() => used() - before, { timeout: 10_000 }).toBeLessThan(50 * MIB);
  ready.resolve();
  await Promise.all(updates);
  expect(evaluators.history.active?.id).toBe(50);
});

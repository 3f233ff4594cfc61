import { execFileSync } from 'node:child_process';
import { totalmem } from 'node:os';
import { getHeapStatistics } from 'node:v8';
import { expect, test } from 'vitest';
import { NODE_FLAGS, nodeFlags } from './node-flags.mjs';

const postgres = { SERVICE_PERSIST_BACKEND: 'postgres' };

test('the heap of replicas may use half of the memory, where Node.js permits less', () => {
  const script = 'console.log(require("node:v8").getHeapStatistics().heap_size_limit)';
  const limit = Number(execFileSync(process.execPath, [...nodeFlags(postgres), '-e', script], { encoding: 'utf8' }));
  const memory = Math.min(process.constrainedMemory() || Number.POSITIVE_INFINITY, totalmem());
  expect(limit).toBeGreaterThanOrEqual(Math.max(getHeapStatistics().heap_size_limit, memory * 0.49));
});

test.each([
  ['with another backend', { SERVICE_PERSIST_BACKEND: 'file' }],
  ['for processes that share the memory', { ...postgres, SERVICE_PROCESSES: '1000' }],
  ['if the limit is set by the user', { ...postgres, NODE_OPTIONS: '--max-old-space-size=300' }],
])('the flags are the usual ones %s', (_when, env) => {
  expect(nodeFlags(env)).toBe(NODE_FLAGS);
});

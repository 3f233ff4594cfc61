import { totalmem } from 'node:os';
import { getHeapStatistics } from 'node:v8';

/**
 * Node.js flags of the service (bench/README.md says what each saves): a larger young generation from the start, no pretenuring,
 * no compaction of the heap before the service has been idle for two minutes, and more inlining, because a call passes many small
 * functions.
 * @type {readonly string[]}
 */
export const NODE_FLAGS = [
  '--min-semi-space-size=32',
  '--max-semi-space-size=64',
  '--no-allocation-site-pretenuring',
  '--memory-reducer-delay-ms=120000',
  '--max-inlined-bytecode-size=2000',
  '--max-inlined-bytecode-size-cumulative=6000',
];

/** Part of the memory that all processes of a service may use for JavaScript objects. */
const HEAP_SHARE = 0.5;

/**
 * The flags of a service with these environment variables. Replicas may have a million tools: their heap may use half of the
 * memory, where that is more than Node.js permits by itself. Plain JavaScript: `npm start` calls this on an older Node.js.
 * @param {NodeJS.ProcessEnv} env
 * @returns {readonly string[]}
 */
export function nodeFlags(env) {
  const isSetByUser = /--max[-_](?:old[-_]space|heap)[-_]size/.test(env.NODE_OPTIONS ?? '');
  if (env.SERVICE_PERSIST_BACKEND !== 'postgres' || isSetByUser) return NODE_FLAGS;
  const memory = Math.min(process.constrainedMemory() || Number.POSITIVE_INFINITY, totalmem());
  const heapBytes = (memory * HEAP_SHARE) / Math.max(1, Number(env.SERVICE_PROCESSES) || 1);
  if (heapBytes <= getHeapStatistics().heap_size_limit) return NODE_FLAGS;
  return [...NODE_FLAGS, `--max-old-space-size=${Math.floor(heapBytes / 2 ** 20)}`];
}

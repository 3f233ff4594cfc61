import { afterAll, expect, it } from 'vitest';
import { ActionCompiler } from './compiler.ts';
import { hotFunction } from './fixtures/hostile/hot-function.ts';
import { ordinaryContext, TestHostFunctions } from './fixtures/test-host-functions.ts';
import { SandboxPool } from './pool.ts';
import { HOST_LIMITS } from './sandbox-worker.ts';

const compiler = new ActionCompiler();
const pool = new SandboxPool({ size: 1, limits: { ...HOST_LIMITS, runMs: 30_000 } });
afterAll(async () => {
  await Promise.all([compiler.close(), pool.close()]);
});

it('hot code of a run is not optimized afterwards: the same process continues', async () => {
  const action = await compiler.compile(await hotFunction());
  pool.setActions([action]);
  const run = () => pool.run(action, { ...ordinaryContext, llmResult: '' }, new TestHostFunctions());
  expect((await run()).response).toEqual({ kind: 'pass' });
  const pids = pool.pids;
  // Long enough for a background compiler to take so much memory that the process is killed.
  for (const until = performance.now() + 3_000; performance.now() < until; ) {
    expect((await run()).response).toEqual({ kind: 'pass' });
  }
  expect(pool.pids).toEqual(expect.arrayContaining([...pids]));
});

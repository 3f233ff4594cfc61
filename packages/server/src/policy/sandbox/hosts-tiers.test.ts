import { afterAll, expect, it } from 'vitest';
import { ActionCompiler } from './compiler.ts';
import { hotFunction } from './fixtures/hostile/hot-function.ts';
import { OrdinaryAnswers, ordinaryContext } from './fixtures/ordinary-answers.ts';
import { HOST_LIMITS } from './host-process.ts';
import { ActionHosts } from './pool.ts';

const compiler = new ActionCompiler();
const hosts = new ActionHosts({ size: 1, limits: { ...HOST_LIMITS, runMs: 30_000 } });
afterAll(async () => {
  await Promise.all([compiler.close(), hosts.close()]);
});

it('what a run made hot is not compiled again behind it: the same process goes on', async () => {
  const action = await compiler.compile(await hotFunction());
  hosts.keep([action]);
  const run = () => hosts.run(action, { ...ordinaryContext, llmResult: '' }, new OrdinaryAnswers());
  expect((await run()).response).toEqual({ kind: 'pass' });
  const pids = hosts.pids;
  // In that time, a compiler in the background takes so much memory that the process is killed.
  for (const until = performance.now() + 3_000; performance.now() < until; ) {
    expect((await run()).response).toEqual({ kind: 'pass' });
  }
  expect(hosts.pids).toEqual(expect.arrayContaining([...pids]));
});

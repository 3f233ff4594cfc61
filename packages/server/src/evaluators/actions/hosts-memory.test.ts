import { readFileSync } from 'node:fs';
import { afterAll, expect, it } from 'vitest';
import { ActionCompiler } from './compiler.ts';
import { hotFunction } from './fixtures/hostile/hot-function.ts';
import { OrdinaryAnswers, ordinaryContext } from './fixtures/ordinary-answers.ts';
import { ActionHosts } from './hosts.ts';

const compiler = new ActionCompiler();
const hosts = new ActionHosts({ size: 1 });
afterAll(async () => {
  await Promise.all([compiler.close(), hosts.close()]);
});

/** The most memory that a process has had, in MiB; undefined when it has gone. */
function peak(pid: number): number | undefined {
  try {
    const [, kib] = /^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1')) ?? [];
    return kib === undefined ? undefined : Number(kib) / 1024;
  } catch {
    return undefined;
  }
}

it('a host that V8 takes more memory for after its run has ended is replaced before it has 256 MiB', async () => {
  const action = await compiler.compile(await hotFunction());
  hosts.keep([action]);
  const run = await hosts.run(action, { ...ordinaryContext, llmResult: '' }, new OrdinaryAnswers());
  expect(run.response).toEqual({ kind: 'pass' });
  const before = hosts.pids;
  const peaks: number[] = [];
  await expect
    .poll(() => {
      const left = before.map(peak).filter((mib) => mib !== undefined);
      peaks.push(...left);
      return left.length;
    })
    .toBeLessThan(before.length);
  expect(Math.max(...peaks)).toBeLessThan(256);
  // Another one has its place.
  await expect.poll(() => hosts.pids.length).toBe(2);
});

import { readFileSync } from 'node:fs';
import { afterAll, expect, it } from 'vitest';
import { ActionCompiler } from './compiler.ts';
import { coreAction } from './fixtures/hostile/core-action.ts';
import { OrdinaryAnswers, ordinaryContext } from './fixtures/ordinary-answers.ts';
import { ActionHosts } from './hosts.ts';

const compiler = new ActionCompiler();
const hosts = new ActionHosts({ size: 1 });
afterAll(async () => {
  await Promise.all([compiler.close(), hosts.close()]);
});

const times = (count: number, text: (at: number) => string) =>
  Array.from({ length: count }, (_, at) => text(at)).join('\n');
const LOOPS = 4_000;
const LOCALS = 2_000;
/** A function that is called long enough to be optimised, which what it never does makes take long, and gigabytes. */
const HOT = `(func $hot (param $go i32) (local $i i32) ${times(LOCALS, (at) => `(local $l${at} i32)`)}
  (loop $warm
    (local.set $i (i32.add (local.get $i) (i32.const 1)))
    (br_if $warm (i32.lt_u (local.get $i) (i32.const 3000000))))
  (if (local.get $go) (then (loop $again
    ${times(LOOPS, (at) => `(loop $n${at} (br_if $n${at} (local.get $l${at % LOCALS}))`)}
    ${times(LOCALS, (at) => `(local.set $l${at} (i32.add (local.get $l${(at * 7 + 1) % LOCALS}) (local.get $i)))`)}
    ${times(LOOPS, (at) => `(br_if $n${LOOPS - 1 - at} (local.get $l${(at * 3 + 5) % LOCALS})))`)}
    (br_if $again (local.get $l3))))))`;

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
  const action = await compiler.compile(
    await coreAction({ uses: ['pass'], more: HOT, evaluate: '(call $hot (i32.const 0)) (call $pass)' }),
  );
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

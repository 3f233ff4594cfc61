import { afterEach, expect, it } from 'vitest';
import { injected } from '../fixtures/injected.ts';
import { ordinaryContext, TestHostFunctions } from '../fixtures/test-host-functions.ts';
import { readSandboxScripts } from '../sandbox-process.ts';
import { SandboxWorker } from '../sandbox-worker.ts';

const hosts: SandboxWorker[] = [];
afterEach(async () => {
  for (const host of hosts) host.kill();
  await Promise.all(hosts.splice(0).map(({ exited }) => exited));
});

/** Runs a script, which can `log(level, text)` and `print(text)`; returns its failure, if any, and its log. */
async function failureOf(script: string, host = startHost()) {
  const action = injected(`
    const log = (level, text) => imports['service:evaluator/log'][level](text);
    const print = (text) => imports['wasi:cli/stderr'].getStderr().write(new TextEncoder().encode(text));
    ${script}`);
  const functions = new TestHostFunctions();
  await host.load(action);
  const failure = await host.run(action, ordinaryContext, functions).then(
    () => undefined,
    ({ fault, message }) => `${fault}: ${message}`,
  );
  return { failure, logged: functions.logged };
}

function startHost(): SandboxWorker {
  const host = new SandboxWorker(readSandboxScripts(['host']), { runMs: 30_000 }, () => undefined);
  hosts.push(host);
  return host;
}

const TRAPS = `throw new WebAssembly.RuntimeError('unreachable');`;

it('a trap has the message that the action reported, and the output of its engine is dropped', async () => {
  const host = startHost();
  const trapped = await failureOf(
    `log('warn', 'before'); print('printed\\n');
    log('error', 'uncaught TypeError: no limit, at a.ts:3\\n    at f (a.ts:3)'); print('panicked at interpreter.rs\\n'); ${TRAPS}`,
    host,
  );
  expect(trapped).toEqual({
    failure: 'trap: TypeError: no limit, at a.ts:3',
    logged: [
      ['warn', 'before'],
      ['debug', 'printed'],
      ['error', 'uncaught TypeError: no limit, at a.ts:3\n    at f (a.ts:3)'],
    ],
  });
  // The message does not carry over to the next run.
  expect(await failureOf(`print('printed\\n'); ${TRAPS}`, host)).toEqual({
    failure: 'trap: unreachable',
    logged: [['debug', 'printed']],
  });
});

it.each([
  ['at another level', `log('warn', 'uncaught x'); ${TRAPS}`, 'trap: unreachable'],
  ['in the middle of a line', `log('error', 'an uncaught x'); ${TRAPS}`, 'trap: unreachable'],
  ['of a run that ends well', `log('error', 'uncaught x');`, undefined],
  [
    'before a limit is reached',
    `log('error', 'uncaught x'); imports['service:evaluator/response'].block('x'.repeat(2 ** 20));`,
    'limit: response exceeds 1 MiB',
  ],
  [
    'after 200 lines',
    `for (let n = 0; n < 300; n++) log('info', 'x'); log('error', 'uncaught x'); ${TRAPS}`,
    'trap: x',
  ],
  ['of any length', `log('error', 'uncaught ' + 'x'.repeat(5000)); ${TRAPS}`, `trap: ${'x'.repeat(300)}`],
])('a line that begins with "uncaught" %s', async (_, script, failure) => {
  expect((await failureOf(script)).failure).toBe(failure);
});

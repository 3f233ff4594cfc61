import { afterEach, expect, it } from 'vitest';
import { injected } from '../fixtures/injected.ts';
import { OrdinaryAnswers, ordinaryContext } from '../fixtures/ordinary-answers.ts';
import { Host } from '../host-process.ts';
import { readSandboxScripts } from '../sandbox-process.ts';

const hosts: Host[] = [];
afterEach(async () => {
  for (const host of hosts) host.kill();
  await Promise.all(hosts.splice(0).map(({ ended }) => ended));
});

/** How a run of a script fails, undefined when it does not, and what it logs; `log(level, text)` and `print(text)` do that. */
async function failureOf(script: string, host = started()) {
  const action = injected(`
    const log = (level, text) => imports['service:evaluator/log'][level](text);
    const print = (text) => imports['wasi:cli/stderr'].getStderr().write(new TextEncoder().encode(text));
    ${script}`);
  const answers = new OrdinaryAnswers();
  await host.load(action);
  const failure = await host.run(action, ordinaryContext, answers).then(
    () => undefined,
    ({ fault, message }) => `${fault}: ${message}`,
  );
  return { failure, logged: answers.logged };
}

function started(): Host {
  const host = new Host(readSandboxScripts(['host']), { runMs: 30_000 }, () => undefined);
  hosts.push(host);
  return host;
}

const TRAPS = `throw new WebAssembly.RuntimeError('unreachable');`;

it('a trap is told in the words of the action, and what its engine prints of it is not', async () => {
  const host = started();
  const told = await failureOf(
    `log('warn', 'before'); print('printed\\n');
    log('error', 'uncaught TypeError: no limit, at a.ts:3\\n    at f (a.ts:3)'); print('panicked at interpreter.rs\\n'); ${TRAPS}`,
    host,
  );
  expect(told).toEqual({
    failure: 'trap: TypeError: no limit, at a.ts:3',
    logged: [
      ['warn', 'before'],
      ['debug', 'printed'],
      ['error', 'uncaught TypeError: no limit, at a.ts:3\n    at f (a.ts:3)'],
    ],
  });
  // The next run has words of its own, or none.
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
    'limit: its response has more than 1 MiB',
  ],
  [
    'after 200 lines',
    `for (let n = 0; n < 300; n++) log('info', 'x'); log('error', 'uncaught x'); ${TRAPS}`,
    'trap: x',
  ],
  ['of any length', `log('error', 'uncaught ' + 'x'.repeat(5000)); ${TRAPS}`, `trap: ${'x'.repeat(300)}`],
])('words that begin with "uncaught": %s', async (_, script, failure) => {
  expect((await failureOf(script)).failure).toBe(failure);
});

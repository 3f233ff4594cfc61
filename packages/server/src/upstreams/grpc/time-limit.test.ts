import { afterEach, beforeEach, expect, it, test, vi } from 'vitest';
import { codeTests, failed, reading, told as toldOfCode } from './fixtures/code-tests.ts';
import { begunAndFailed, workTests } from './fixtures/work-tests.ts';

const LIMIT = { SERVICE_UPSTREAM_MAX_TIMEOUT_MS: '200' };
const MESSAGE = 'the call did not finish within 0.2 s';

const { serviceWith, registered, work, read, told } = workTests();
const setUpCode = codeTests(LIMIT);

// Calls take no time but what the test says.
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});
const pass = () => vi.advanceTimersByTime(201);

it('a tool that takes longer than any call may is a result that names the limit, a resource an error', async () => {
  const on = await serviceWith(LIMIT);
  const [invoked, asked] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const service = await registered('worker', { tool: () => invoked.resolve(), resource: () => asked.resolve() }, on);
  const worked = work(on);
  await invoked.promise;
  pass();
  expect(await worked).toEqual([true, MESSAGE]);
  expect(await told(on)).toMatchObject(begunAndFailed('UNKNOWN', MESSAGE));
  const reads = read(on);
  await asked.promise;
  pass();
  expect(await reads).toEqual({ code: -32603, message: MESSAGE });
  await expect.poll(() => [service.tools[0]?.cancelled, service.resources[0]?.cancelled]).toEqual([true, true]);
});

test('of code that takes longer, what it has put out is answered too', async () => {
  const parts = await setUpCode();
  const answer = reading(parts.url, '"progressToken":1');
  const execution = await parts.engine.next();
  execution.reply({ outputType: 'STDOUT', status: 'RUNNING', content: ['so far'] });
  await answer.message(0);
  pass();
  expect(JSON.parse(await answer.message(1)).result).toEqual(failed('so far', MESSAGE));
  await execution.cancelled;
  expect(await toldOfCode(parts.service)).toMatchObject(begunAndFailed('UNKNOWN', MESSAGE));
});

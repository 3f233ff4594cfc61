import { afterEach, beforeEach, expect, it, test, vi } from 'vitest';
import { eventsOf as codeEventsOf, codeTests, failed, reading } from './fixtures/code-tests.ts';
import { operationTests, startedAndFailed } from './fixtures/operation-tests.ts';

const LIMIT = { SERVICE_UPSTREAM_MAX_TIMEOUT_MS: '200' };
const MESSAGE = 'the call did not finish within 0.2 s';

const { serviceWith, registered, work, read, eventsOf } = operationTests();
const setUpCode = codeTests(LIMIT);

// The test controls the time.
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});
const pass = () => vi.advanceTimersByTime(201);

it('a tool over the total time limit is an error result that names the limit, a resource an error', async () => {
  const on = await serviceWith(LIMIT);
  const [invoked, requested] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const service = await registered(
    'worker',
    { tool: () => invoked.resolve(), resource: () => requested.resolve() },
    on,
  );
  const worked = work(on);
  await invoked.promise;
  pass();
  expect(await worked).toEqual([true, MESSAGE]);
  expect(await eventsOf(on)).toMatchObject(startedAndFailed('UNKNOWN', MESSAGE, 'timeout'));
  const reads = read(on);
  await requested.promise;
  pass();
  expect(await reads).toEqual({ code: -32603, message: MESSAGE });
  await expect.poll(() => [service.tools[0]?.canceled, service.resources[0]?.canceled]).toEqual([true, true]);
});

test('the output of code over the time limit is returned too', async () => {
  const parts = await setUpCode();
  const response = reading(parts.url, '"progressToken":1');
  const execution = await parts.engine.next();
  execution.reply({ outputType: 'STDOUT', status: 'RUNNING', content: ['so far'] });
  await response.message(0);
  pass();
  expect(JSON.parse(await response.message(1)).result).toEqual(failed('so far', MESSAGE));
  await execution.canceled;
  expect(await codeEventsOf(parts.service)).toMatchObject(startedAndFailed('UNKNOWN', MESSAGE, 'timeout'));
});

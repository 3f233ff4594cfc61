import { expect, it, test } from 'vitest';
import { codeTests, failed, run, told as toldOfCode } from './fixtures/code-tests.ts';
import { begunAndFailed, workTests } from './fixtures/work-tests.ts';

const LIMIT = { SERVICE_UPSTREAM_MAX_TIMEOUT_MS: '200' };
const MESSAGE = 'the call did not finish within 0.2 s';

const { serviceWith, registered, work, read, told } = workTests();
const setUpCode = codeTests(LIMIT);

it('a tool that takes longer than any call may is a result that names the limit, a resource an error', async () => {
  const on = await serviceWith(LIMIT);
  const service = await registered('worker', { tool: () => undefined, resource: () => undefined }, on);
  expect(await work(on)).toEqual([true, MESSAGE]);
  expect(await told(on)).toMatchObject(begunAndFailed('UNKNOWN', MESSAGE));
  expect(await read(on)).toEqual({ code: -32603, message: MESSAGE });
  await expect.poll(() => [service.tools[0]?.cancelled, service.resources[0]?.cancelled]).toEqual([true, true]);
});

test('of code that takes longer, what it has put out is answered too', async () => {
  const parts = await setUpCode();
  const answered = await run(parts, (execution) => {
    execution.reply({ outputType: 'STDOUT', status: 'RUNNING', content: ['so far'] });
  });
  expect(answered).toEqual(failed('so far', MESSAGE));
  await parts.engine.executions[0]?.cancelled;
  expect(await toldOfCode(parts.service)).toMatchObject(begunAndFailed('UNKNOWN', MESSAGE));
});

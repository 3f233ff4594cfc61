import { describe, expect, it } from 'vitest';
import { TAKES_ALL } from './fixtures/bridge-tests.ts';
import { BEGUN_AND_COMPLETED, begunAndFailed, workTests } from './fixtures/work-tests.ts';

const tests = workTests();
const { registered, serviceWith, work, read, told } = tests;

const HEADER = { target: 'header', scope: 'service' };
const LARGE = 'x'.repeat(4 * 1024 * 1024);

describe('a message of more than 4 MiB', () => {
  it('is told as what it is when it is the reply', async () => {
    const service = await registered('worker', {
      tool: (call) => call.reply(service.tools.length === 1 ? [LARGE] : ['small']),
      resource: (call) => call.reply([LARGE]),
      options: TAKES_ALL,
    });
    const message = expect.stringMatching(/^Received message larger than max \(\d+ vs 4194304\)$/);
    expect(await work()).toEqual([true, message]);
    expect(await told()).toMatchObject(begunAndFailed('SERVICE_UNAVAILABLE', message));
    expect(await read()).toEqual({ code: -32603, message });
    // Nothing was tried again, and the channel goes on.
    expect([service.tools.length, service.resources.length]).toEqual([1, 1]);
    expect(await work()).toEqual([false, 'small']);
  });

  it('is told as what it is when it is the request', async () => {
    // The argument is a header too: so the message is twice as large as the client's.
    const on = await serviceWith({}, { input_schema: { type: 'object', properties: { big: HEADER } } });
    const service = await registered('worker', { options: TAKES_ALL }, on);
    const given = `{"big":"${LARGE.slice(0, LARGE.length / 2)}"}`;
    const message = 'Attempted to send message with a size larger than 4194304';
    expect(await work(on, given)).toEqual([true, message]);
    expect(await told(on)).toMatchObject(begunAndFailed('SERVICE_UNAVAILABLE', message));
    expect(await work(on, '{"big":"small"}')).toEqual([false, 'done']);
    expect(service.tools).toHaveLength(1);
  });

  it('is refused by a service that takes less, in its words', async () => {
    await registered('worker', { options: { 'grpc.max_receive_message_length': 1000 } });
    const [isError, text] = await work(tests.service, `{"big":"${LARGE.slice(0, 2000)}"}`);
    expect([isError, text]).toEqual([true, expect.stringContaining('larger than max')]);
    expect(await told()).toMatchObject(begunAndFailed('SERVICE_UNAVAILABLE', text));
  });
});

it('a message is carried in both directions up to 4 MiB, and its event keeps 16 KiB of it', async () => {
  const almost = LARGE.slice(0, -1024);
  await registered('worker', {
    tool: ({ request, reply }) => reply([request.arguments.big ?? '']),
    options: TAKES_ALL,
  });
  expect(await work(tests.service, `{"big":"${almost}"}`)).toEqual([false, almost]);
  const events = await told();
  expect(events).toMatchObject(BEGUN_AND_COMPLETED);
  expect(events[1]).toMatchObject({ content: [LARGE.slice(0, 16 * 1024)], contentTruncated: true });
});

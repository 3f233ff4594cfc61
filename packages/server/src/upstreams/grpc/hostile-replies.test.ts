import type { ServerHttp2Stream } from 'node:http2';
import { gzipSync } from 'node:zlib';
import { describe, expect, it, vi } from 'vitest';
import { loadProtocols } from './channels.ts';
import { operationTests, startedAndFailed } from './fixtures/operation-tests.ts';
import { framed, HEAD, sends, startRawService } from './fixtures/raw-service.ts';
import type { WorkingServiceOptions } from './fixtures/working-service.ts';

const tests = operationTests();
const { address, registered, onEnd, serviceWith, work, read, eventsOf } = tests;
const { InvokeTool } = loadProtocols().toolInvoker;

const OK = { 'grpc-status': '0' };
const DONE = InvokeTool.responseSerialize({ content: ['done'] });

/** A service with this reply to its first call and valid ones later. */
async function respondingWith(first: (stream: ServerHttp2Stream) => void, on = tests.service): Promise<void> {
  let calls = 0;
  const raw = await startRawService((stream) => (calls++ === 0 ? first(stream) : sends(framed(DONE), OK)(stream)));
  onEnd(async () => raw.close());
  await address('worker', raw.port, {}, on);
}

/** The field `content` with these bytes, which need not be UTF-8. */
function content(bytes: readonly number[]): Buffer {
  return Buffer.from([0x12, bytes.length, ...bytes]);
}

describe('an invalid reply fails the call, and the next one succeeds', () => {
  it.each<[string, (stream: ServerHttp2Stream) => void, string]>([
    ['a message that is not protobuf', sends(framed(Buffer.from([0xff, 0xff, 0xff])), OK), 'parsing error'],
    ['a frame that is cut short', sends(framed(DONE).subarray(0, -1), OK), ''],
    ['an incomplete frame of 2 GiB', sends(Buffer.from([0, 0x7f, 0xff, 0xff, 0xff]), OK), 'larger than max'],
    ['no message', sends(Buffer.alloc(0), OK), ''],
    ['a page of HTML', sends(Buffer.from('<html>'), undefined, { 'content-type': 'text/html' }), ''],
    [
      'an unknown compression',
      sends(framed(DONE, true), OK, { 'grpc-encoding': 'x' }),
      'sent a reply that cannot be read',
    ],
    [
      '16 MiB in 16 KiB of gzip',
      sends(framed(gzipSync(Buffer.alloc(16 * 1024 * 1024)), true), OK, { 'grpc-encoding': 'gzip' }),
      'Received message that decompresses to a size larger than 4194304',
    ],
    [
      'gzip that is none',
      sends(framed(DONE, true), OK, { 'grpc-encoding': 'gzip' }),
      'Failed to decompress gzip-encoded message',
    ],
    ['a status that is not a number', sends(Buffer.alloc(0), { 'grpc-status': 'well' }), ''],
    ['an unknown status', sends(Buffer.alloc(0), { 'grpc-status': '99' }), ''],
    ['an immediate end of the stream', (stream) => stream.close(), ''],
  ])('%s', async (_what, first, says) => {
    await respondingWith(first);
    const [isError, text] = await work();
    expect([isError, text]).toEqual([true, expect.stringContaining(says)]);
    expect(text).not.toBe('');
    expect(await eventsOf()).toMatchObject(startedAndFailed('SERVICE_UNAVAILABLE', text));
    expect(await work()).toEqual([false, 'done']);
  });
});

it.each<[string, (stream: ServerHttp2Stream) => void]>([
  [
    'a reply that trickles in without an end',
    (stream) => {
      stream.respond(HEAD);
      const trickle = setInterval(() => stream.write('\0'), 5);
      stream.once('close', () => clearInterval(trickle));
      stream.write(Buffer.from([0, 0, 0x10, 0, 0]));
    },
  ],
  ['two replies to a unary call', sends(Buffer.concat([framed(DONE), framed(DONE)]), OK)],
])('%s fails at the deadline', async (_what, first) => {
  const on = await serviceWith({});
  const arrived = Promise.withResolvers<void>();
  await respondingWith((stream) => {
    first(stream);
    arrived.resolve();
  }, on);
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onEnd(async () => vi.useRealTimers());
  const given = work(on);
  await arrived.promise;
  vi.advanceTimersByTime(5_000);
  expect(await given).toEqual([true, expect.stringContaining(' did not answer in time: ')]);
  expect(await work(on)).toEqual([false, 'done']);
});

it('an invalid header is not logged with its value', async () => {
  const written = vi.spyOn(console, 'error');
  onEnd(async () => written.mockRestore());
  await respondingWith(sends(framed(DONE), OK, { 'x-cafe': 'caf\u00e9 S3CRET' }));
  expect(await work()).toEqual([false, 'done']);
  expect(written).not.toHaveBeenCalled();
});

it('invalid UTF-8 is replaced', async () => {
  await respondingWith(sends(framed(content([0x61, 0xff, 0xed, 0xa0, 0x80, 0x62])), OK));
  const [isError, text] = await work();
  expect(isError).toBe(false);
  expect(text).toMatch(/^a\ufffd+b$/);
});

it('NUL, control characters and line separators are preserved', async () => {
  const odd = '\0\u0001\u001b[31m\r\n\u2028\u2029"\\';
  await registered('worker', { tool: (call) => call.reply([odd]) });
  expect(await work()).toEqual([false, odd]);
});

/** For slow machines. */
const TIMEOUT = { SERVICE_BRIDGE_GRPC_TIMEOUT_MS: '60000' };

it('a reply with too many texts fails the call and the read', async () => {
  const on = await serviceWith(TIMEOUT);
  const many = Array.from({ length: 1_100_000 }, () => '');
  const options: WorkingServiceOptions = {
    tool: (call) => call.reply(service.tools.length === 1 ? many : ['small']),
    resource: (call) => call.reply(many.slice(0, 50_001)),
  };
  const service = await registered('worker', options, on);
  const message = expect.stringContaining('the reply has more than 50000 fields');
  expect(await work(on)).toEqual([true, message]);
  expect(await eventsOf(on)).toMatchObject(startedAndFailed('SERVICE_UNAVAILABLE', message));
  expect(await read(on)).toEqual({ code: -32603, message });
  expect(await work(on)).toEqual([false, 'small']);
});

it('uri and type of each text of a resource count too', async () => {
  await registered('worker', { resource: (call) => call.reply(Array.from({ length: 40_000 }, () => '')) });
  await tests.service.manage('PUT', '/resources/page', {
    name: 'page',
    location: 'page://1',
    type: 'worker',
    mimeType: `text/${'x'.repeat(2000)}`,
  });
  expect(await read()).toMatchObject({ message: expect.stringContaining('sent a reply of more than') });
});

it('a reply of many empty texts is returned', async () => {
  const on = await serviceWith(TIMEOUT);
  await registered('worker', { tool: (call) => call.reply(Array.from({ length: 49_000 }, () => '')) }, on);
  const [isError, text] = await work(on);
  expect([isError, text.length]).toEqual([false, 48_999]);
  expect(await eventsOf(on)).toMatchObject([{}, { eventType: 'COMPLETED', contentTruncated: true }]);
});

import { describe, expect, it } from 'vitest';
import { event } from '../../../../../../test/fixtures/raw-upstream/texts.ts';
import { inputRequired, lastMessage, resultText } from '../../../../testing/interactive-client.ts';
import { liveTests, notification } from '../../../../testing/live-tests.ts';
import type { LiveResponse } from '../../../../testing/live-upstream.ts';
import { inputResponses, startCall, suspendedCall } from './fixtures/suspended-call.ts';

const { live } = liveTests();

const log = (level: string, data: string) => notification('message', `{"level":"${level}","data":${data}}`);
const progress = (token: string, value: string) =>
  notification('progress', `{"progressToken":${token},"progress":${value}}`);
/** `_meta` of a request with this progress token and log level. */
const wanting = (token: string, level: string) =>
  `"progressToken":${token},"io.modelcontextprotocol/logLevel":"${level}"`;

/** Sends messages in one chunk, and waits until all of them have arrived. */
async function sendAll(on: LiveResponse, responses: () => readonly string[], ...messages: readonly string[]) {
  const before = responses().length;
  const ping = '{"jsonrpc":"2.0","id":"p","method":"ping"}';
  on.response.write([...messages, ping].map((message) => event(message)).join(''));
  await expect.poll(responses).toHaveLength(before + 1);
}

describe('messages of a suspended call', () => {
  it('that arrive before the server request are sent on the stream of the first request', async () => {
    const { call, first } = await startCall(live, { fields: { id: '1', meta: wanting('"one"', 'info') } });
    call.send(progress(call.progressToken, '1.0'));
    call.send(log('info', '9223372036854775807'));
    call.send(log('debug', '0'));
    call.request('1', 'roots/list');
    await inputRequired(first);
    expect(first.messages).toEqual([
      progress('"one"', '1.0'),
      log('info', '9223372036854775807'),
      expect.stringContaining('"input_required"'),
    ]);
  });

  it('that arrive while the call is suspended, and later ones, are sent to the retry in the form it wants', async () => {
    const fields = { meta: wanting('"one"', 'debug') };
    const { upstream, client, call, pending, answers } = await suspendedCall(live, { fields });
    await sendAll(
      call,
      upstream.answers,
      progress(call.progressToken, '1.0'),
      log('debug', '1'),
      log('error', '{"n":1.0}'),
    );
    const second = client.retry(pending.state, answers, { meta: wanting('2.0', 'warning') });
    expect(await second.message(1)).toBe(log('error', '{"n":1.0}'));
    call.send(progress(call.progressToken, '2'));
    call.send(log('info', '3'));
    call.send(log('warning', '4'));
    call.end('done');
    await lastMessage(second);
    expect(second.messages.slice(0, -1)).toEqual([
      progress('2.0', '1.0'),
      log('error', '{"n":1.0}'),
      progress('2.0', '2'),
      log('warning', '4'),
    ]);
    expect(await resultText(second)).toBe('done');
  });

  it('are not sent to a retry that wants none', async () => {
    const fields = { meta: wanting('"one"', 'debug') };
    const { upstream, client, call, pending, answers } = await suspendedCall(live, { fields });
    await sendAll(call, upstream.answers, progress(call.progressToken, '1'), log('error', '1'));
    const second = client.retry(pending.state, answers);
    await expect.poll(upstream.answers).toHaveLength(2);
    call.send(progress(call.progressToken, '2'));
    call.send(log('error', '2'));
    call.end('done');
    expect(await resultText(second)).toBe('done');
    expect(second.messages).toHaveLength(1);
    expect((await second.head).headers['content-type']).toBe('application/json');
  });

  it('are sent to each retry in turn', async () => {
    const fields = { meta: wanting('1', 'info') };
    const { upstream, client, call, pending, answers } = await suspendedCall(live, { fields });
    const second = client.retry(pending.state, answers, { meta: wanting('2', 'info') });
    await expect.poll(upstream.answers).toHaveLength(1);
    call.send(progress(call.progressToken, '2'));
    call.request('8', 'roots/list');
    const again = await inputRequired(second);
    expect(second.messages[0]).toBe(progress('2', '2'));
    await sendAll(call, upstream.answers, log('info', '3'));
    const third = client.retry(again.state, inputResponses(again), { meta: wanting('3', 'info') });
    await expect.poll(upstream.answers).toHaveLength(3);
    call.progress(4);
    call.end('done');
    expect(await resultText(third)).toBe('done');
    expect(third.messages.slice(0, -1)).toEqual([log('info', '3'), progress('3', '4')]);
  });

  it('on the stream of the session are dispatched to its call only, also while it is suspended', async () => {
    const fields = { meta: wanting('"one"', 'info') };
    const { upstream, client, call, pending, answers } = await suspendedCall(live, { fields });
    const stream = await upstream.streams.next();
    const other = client.send({ meta: wanting('"other"', 'info') });
    const otherCall = await upstream.calls.next();
    expect(otherCall.session).not.toBe(call.session);
    stream.send(log('info', '1'));
    stream.send(progress(call.progressToken, '1'));
    const second = client.retry(pending.state, answers, { meta: wanting('"two"', 'info') });
    await second.message(0);
    otherCall.json('other');
    expect(await resultText(other)).toBe('other');
    expect(other.messages).toHaveLength(1);
    stream.send(log('info', '2'));
    await second.matching(/"data":2/);
    call.end('done');
    await resultText(second);
    expect(second.messages.filter((text) => text.includes('/message'))).toEqual([log('info', '1'), log('info', '2')]);
  });

  it('pause the upstream while the call is suspended, and none is lost', async () => {
    const fields = { meta: wanting('1', 'info') };
    const { client, call, pending, answers } = await suspendedCall(live, { fields });
    const padding = 'x'.repeat(64 * 1024);
    const count = 400;
    for (let number = 0; number < count; number++) call.send(log('info', `"${number} ${padding}"`));
    // Enough time to read all of it.
    for (let time = 0; time < 30; time++) await client.send({ method: 'tools/list', params: '"x":1' }).ended;
    const left = call.response.writableLength;
    const second = client.retry(pending.state, answers, { meta: wanting('1', 'info') });
    call.end('done');
    expect(await resultText(second)).toBe('done');
    // More was left than socket buffers hold.
    expect(left).toBeGreaterThan(8 * 1024 * 1024);
    const numbers = second.messages.slice(0, -1).map((text) => Number.parseInt(JSON.parse(text).params.data, 10));
    expect(numbers).toEqual(Array.from({ length: count }, (_, number) => number));
  });

  it('that are unread when the call ends neither reach the next call nor block its server requests', async () => {
    const fields = { meta: wanting('1', 'info') };
    const { upstream, client, call, pending, answers } = await suspendedCall(live, { fields });
    const stream = await upstream.streams.next();
    await sendAll(stream, upstream.answers, log('info', '1'));
    stream.send(log('info', '2'));
    call.end('done');
    const second = client.retry(pending.state, answers);
    expect(await resultText(second)).toBe('done');
    const next = client.send(fields);
    expect((await upstream.calls.next()).session).not.toBe(call.session);
    (await upstream.streams.next()).send('{"jsonrpc":"2.0","id":"next","method":"roots/list"}');
    expect((await inputRequired(next)).keys).toHaveLength(1);
    expect(next.messages).toHaveLength(1);
    await expect.poll(() => upstream.sessions.has(call.session)).toBe(false);
  });
});

import { describe, expect, it } from 'vitest';
import { event } from '../../../../../../test/fixtures/raw-upstream/texts.ts';
import { inputRequired, lastMessage, resultText } from '../../../../testing/askable-client.ts';
import { liveTests, notification } from '../../../../testing/live.ts';
import type { LiveAnswer } from '../../../../testing/live-upstream.ts';
import { answering, calling, parked } from './fixtures/calling.ts';

const { live } = liveTests();

const log = (level: string, data: string) => notification('message', `{"level":"${level}","data":${data}}`);
const progress = (token: string, value: string) =>
  notification('progress', `{"progressToken":${token},"progress":${value}}`);
/** `_meta` of a request that wants progress under this token, and log messages from this level on. */
const wanting = (token: string, level: string) =>
  `"progressToken":${token},"io.modelcontextprotocol/logLevel":"${level}"`;

/** Sends messages in one piece, and waits until all of them have arrived. */
async function sendAll(on: LiveAnswer, answers: () => readonly string[], ...messages: readonly string[]) {
  const before = answers().length;
  const ping = '{"jsonrpc":"2.0","id":"p","method":"ping"}';
  on.response.write([...messages, ping].map((message) => event(message)).join(''));
  await expect.poll(answers).toHaveLength(before + 1);
}

describe('messages of a call that is parked', () => {
  it('that come before the question go ahead of it, on the stream of the first request', async () => {
    const { call, first } = await calling(live, { fields: { id: '1', meta: wanting('"one"', 'info') } });
    call.send(progress(call.progressToken, '1.0'));
    call.send(log('info', '9223372036854775807'));
    call.send(log('debug', '0'));
    call.ask('1', 'roots/list');
    await inputRequired(first);
    expect(first.messages).toEqual([
      progress('"one"', '1.0'),
      log('info', '9223372036854775807'),
      expect.stringContaining('"input_required"'),
    ]);
  });

  it('that come while the client is away, and those after, go to its retry, as that wants them', async () => {
    const fields = { meta: wanting('"one"', 'debug') };
    const { upstream, client, call, asked, answers } = await parked(live, { fields });
    await sendAll(
      call,
      upstream.answers,
      progress(call.progressToken, '1.0'),
      log('debug', '1'),
      log('error', '{"n":1.0}'),
    );
    const second = client.retry(asked.state, answers, { meta: wanting('2.0', 'warning') });
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

  it('do not go to a retry that wants none', async () => {
    const fields = { meta: wanting('"one"', 'debug') };
    const { upstream, client, call, asked, answers } = await parked(live, { fields });
    await sendAll(call, upstream.answers, progress(call.progressToken, '1'), log('error', '1'));
    const second = client.retry(asked.state, answers);
    await expect.poll(upstream.answers).toHaveLength(2);
    call.send(progress(call.progressToken, '2'));
    call.send(log('error', '2'));
    call.end('done');
    expect(await resultText(second)).toBe('done');
    expect(second.messages).toHaveLength(1);
    expect((await second.head).headers['content-type']).toBe('application/json');
  });

  it('go to each retry in its turn', async () => {
    const fields = { meta: wanting('1', 'info') };
    const { upstream, client, call, asked, answers } = await parked(live, { fields });
    const second = client.retry(asked.state, answers, { meta: wanting('2', 'info') });
    await expect.poll(upstream.answers).toHaveLength(1);
    call.send(progress(call.progressToken, '2'));
    call.ask('8', 'roots/list');
    const again = await inputRequired(second);
    expect(second.messages[0]).toBe(progress('2', '2'));
    await sendAll(call, upstream.answers, log('info', '3'));
    const third = client.retry(again.state, answering(again), { meta: wanting('3', 'info') });
    await expect.poll(upstream.answers).toHaveLength(3);
    call.progress(4);
    call.end('done');
    expect(await resultText(third)).toBe('done');
    expect(third.messages.slice(0, -1)).toEqual([log('info', '3'), progress('3', '4')]);
  });

  it('on the stream of the session go to its call alone, also while that is parked', async () => {
    const fields = { meta: wanting('"one"', 'info') };
    const { upstream, client, call, asked, answers } = await parked(live, { fields });
    const stream = await upstream.streams.next();
    const other = client.send({ meta: wanting('"other"', 'info') });
    const otherCall = await upstream.calls.next();
    expect(otherCall.session).not.toBe(call.session);
    stream.send(log('info', '1'));
    stream.send(progress(call.progressToken, '1'));
    const second = client.retry(asked.state, answers, { meta: wanting('"two"', 'info') });
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

  it('are held back at the upstream while nobody is there to read them, and none is lost', async () => {
    const fields = { meta: wanting('1', 'info') };
    const { client, call, asked, answers } = await parked(live, { fields });
    const padding = 'x'.repeat(64 * 1024);
    const count = 400;
    for (let number = 0; number < count; number++) call.send(log('info', `"${number} ${padding}"`));
    // In so much time all of it could be read.
    for (let time = 0; time < 30; time++) await client.send({ method: 'tools/list', params: '"x":1' }).over;
    const left = call.response.writableLength;
    const second = client.retry(asked.state, answers, { meta: wanting('1', 'info') });
    call.end('done');
    expect(await resultText(second)).toBe('done');
    // More than what lies on the way was still there.
    expect(left).toBeGreaterThan(8 * 1024 * 1024);
    const numbers = second.messages.slice(0, -1).map((text) => Number.parseInt(JSON.parse(text).params.data, 10));
    expect(numbers).toEqual(Array.from({ length: count }, (_, number) => number));
  });

  it('that nobody has read when the call is over do not reach the next call, nor keep it from being asked', async () => {
    const fields = { meta: wanting('1', 'info') };
    const { upstream, client, call, asked, answers } = await parked(live, { fields });
    const stream = await upstream.streams.next();
    await sendAll(stream, upstream.answers, log('info', '1'));
    stream.send(log('info', '2'));
    call.end('done');
    const second = client.retry(asked.state, answers);
    expect(await resultText(second)).toBe('done');
    const next = client.send(fields);
    expect((await upstream.calls.next()).session).not.toBe(call.session);
    (await upstream.streams.next()).send('{"jsonrpc":"2.0","id":"next","method":"roots/list"}');
    expect((await inputRequired(next)).keys).toHaveLength(1);
    expect(next.messages).toHaveLength(1);
    await expect.poll(() => upstream.sessions.has(call.session)).toBe(false);
  });
});

import { describe, expect, it } from 'vitest';
import type { ReceivedMessage, ScriptedResponse } from '../../../../../../test/fixtures/raw-upstream/message.ts';
import { textResultText } from '../../../../../../test/fixtures/raw-upstream/texts.ts';
import { capabilityScripts } from '../../../../testing/capability-scripts.ts';
import { liveTests, notification, responseTo } from '../../../../testing/live-tests.ts';
import type { ResponseReader, SessionClient } from '../../../../testing/session-client.ts';
import { inputRequired, multiRoundStarter, rootsRequests } from './fixtures/multi-round.ts';

const startSession = multiRoundStarter(liveTests());

const ASKS = inputRequired(rootsRequests('k'));
const DONE = textResultText('done');

/** The progress token of a received request, as JSON text. */
const tokenOf = ({ params }: ReceivedMessage) => JSON.stringify(Object(params._meta).progressToken);
const progress = (token: string, value: string) =>
  notification('progress', `{"progressToken":${token},"progress":${value},"message":"\\u00e4"}`);
const log = (level: string, data = '1.0') => notification('message', `{"level":"${level}","data":${data}}`);

/** A response that is preceded by these messages. */
const withMessages =
  (text: string, before: (seen: ReceivedMessage) => readonly string[]) =>
  (seen: ReceivedMessage): ScriptedResponse => ({ kind: 'result', text, before: before(seen) });

/** Responds to all server requests of a call until it is over; returns the other messages on its stream. */
async function responded(client: SessionClient, reading: ResponseReader): Promise<readonly string[]> {
  const received: string[] = [];
  for (let at = 0; ; at++) {
    const message = await reading.message(at);
    if (message.includes('roots/list')) await client.post(responseTo(message));
    else received.push(message);
    if (message.includes('"result"')) return received;
  }
}

describe('progress', () => {
  it('is sent in every round, with the client’s own token', async () => {
    const { client, rounds } = await startSession([
      withMessages(ASKS, (seen) => [
        progress(tokenOf(seen), '0.10'),
        progress('"another"', '0.2'),
        progress('1', '0.3'),
      ]),
      withMessages(ASKS, (seen) => [progress(tokenOf(seen), '1e2')]),
      // Progress that starts again is sent once it exceeds what the client got before.
      withMessages(DONE, (seen) => [
        progress(tokenOf(seen), '1'),
        progress(tokenOf(seen), '100.0'),
        progress(tokenOf(seen), '9223372036854775807'),
      ]),
    ]);
    const token = '"m\\u0069ne"';
    const received = await responded(client, client.call('"c"', `"progressToken":${token}`));
    expect(received).toEqual([
      ...['0.10', '1e2', '9223372036854775807'].map((value) => progress(token, value)),
      `{"jsonrpc":"2.0","id":"c","result":${DONE}}`,
    ]);
    const tokens = rounds().map(tokenOf);
    expect(tokens).toEqual(rounds().map(({ id }) => id));
    expect(new Set(tokens).size).toBe(3);
  });

  it('that starts again is not sent, even if the upstream escapes the slash in the method', async () => {
    const escaped = (...params: Parameters<typeof progress>) =>
      progress(...params).replace('notifications/', 'notifications\\/');
    const { client } = await startSession([
      withMessages(ASKS, (seen) => [escaped(tokenOf(seen), '100')]),
      withMessages(DONE, (seen) => [escaped(tokenOf(seen), '1'), escaped(tokenOf(seen), '101')]),
    ]);
    const received = await responded(client, client.call('"c"', '"progressToken":"t"'));
    expect(received.slice(0, -1)).toEqual([escaped('"t"', '100'), escaped('"t"', '101')]);
  });

  it('is not sent to a client that wants none', async () => {
    const { client, rounds } = await startSession([
      withMessages(ASKS, ({ id }) => [progress(String(id), '1')]),
      withMessages(DONE, ({ id }) => [progress(String(id), '2')]),
    ]);
    const reading = client.call('1');
    expect(await responded(client, reading)).toHaveLength(1);
    expect(rounds().map(tokenOf)).toEqual([undefined, undefined]);
  });
});

describe('log messages', () => {
  it('reach the client in every round, and so do other notifications of a modern upstream', async () => {
    const vendor = '{"jsonrpc":"2.0","method":"notifications/example.com/x","params":{"n":1.0}}';
    const { client } = await startSession([
      withMessages(ASKS, () => [log('info'), vendor]),
      withMessages(ASKS, () => [log('emergency')]),
      withMessages(DONE, () => [log('error', '{"n":9223372036854775807}')]),
    ]);
    expect((await responded(client, client.call('1'))).slice(0, -1)).toEqual([
      log('info'),
      vendor,
      log('emergency'),
      log('error', '{"n":9223372036854775807}'),
    ]);
  });

  it('below the session’s level do not; a level set between two rounds applies from the next one', async () => {
    const output = ['info', 'error', 'alert'].map((level) => log(level));
    const { client } = await startSession(
      [withMessages(ASKS, () => output), withMessages(ASKS, () => output), withMessages(DONE, () => output)],
      { scripts: capabilityScripts('{"tools":{},"logging":{}}') },
    );
    await client.request('logging/setLevel', '{"level":"error"}');
    const reading = client.call('"c"');
    await client.post(responseTo(await reading.message(2)));
    const second = await reading.message(5);
    await client.request('logging/setLevel', '{"level":"alert"}');
    await client.post(responseTo(second));
    await reading.ended;
    expect(reading.messages.filter((message) => message.includes('notifications/message'))).toEqual([
      ...[log('error'), log('alert')],
      ...[log('error'), log('alert')],
      log('alert'),
    ]);
  });
});

it('a request on a modern upstream’s stream is not relayed: that era has input requests instead', async () => {
  const { client } = await startSession([withMessages(DONE, () => ['{"jsonrpc":"2.0","id":5,"method":"roots/list"}'])]);
  const reading = client.call('1');
  await reading.ended;
  expect(reading.messages).toEqual([`{"jsonrpc":"2.0","id":1,"result":${DONE}}`]);
});

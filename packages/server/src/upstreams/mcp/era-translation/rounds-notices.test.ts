import { describe, expect, it } from 'vitest';
import type { Answer, Seen } from '../../../../../../test/fixtures/raw-upstream/message.ts';
import { textResultText } from '../../../../../../test/fixtures/raw-upstream/texts.ts';
import { answerTo, liveTests, notification } from '../../../../testing/live.ts';
import type { Reading, SessionClient } from '../../../../testing/session-client.ts';
import { askingOf, inputRequired, rootsUnder } from './fixtures/asking.ts';

const asking = askingOf(liveTests());

const ASKS = inputRequired(rootsUnder('k'));
const DONE = textResultText('done');

/** The progress token of a request as it arrived, as JSON text. */
const tokenOf = ({ params }: Seen) => JSON.stringify(Object(params._meta).progressToken);
const progress = (token: string, value: string) =>
  notification('progress', `{"progressToken":${token},"progress":${value},"message":"\\u00e4"}`);
const log = (level: string, data = '1.0') => notification('message', `{"level":"${level}","data":${data}}`);

/** An answer that these messages go ahead of, as the request asks for. */
const saying =
  (text: string, before: (seen: Seen) => readonly string[]) =>
  (seen: Seen): Answer => ({ kind: 'result', text, before: before(seen) });

/** Answers whatever a call asks, until it is over; all that was on its stream but the questions. */
async function answered(client: SessionClient, reading: Reading): Promise<readonly string[]> {
  const heard: string[] = [];
  for (let at = 0; ; at++) {
    const message = await reading.message(at);
    if (message.includes('roots/list')) await client.post(answerTo(message));
    else heard.push(message);
    if (message.includes('"result"')) return heard;
  }
}

describe('progress', () => {
  it('is told in every round, under the client’s own token', async () => {
    const { client, rounds } = await asking([
      saying(ASKS, (seen) => [progress(tokenOf(seen), '0.10'), progress('"another"', '0.2'), progress('1', '0.3')]),
      saying(ASKS, (seen) => [progress(tokenOf(seen), '1e2')]),
      // One that begins anew is told from where it is beyond what the client was told before.
      saying(DONE, (seen) => [
        progress(tokenOf(seen), '1'),
        progress(tokenOf(seen), '100.0'),
        progress(tokenOf(seen), '9223372036854775807'),
      ]),
    ]);
    const token = '"m\\u0069ne"';
    const heard = await answered(client, client.call('"c"', `"progressToken":${token}`));
    expect(heard).toEqual([
      ...['0.10', '1e2', '9223372036854775807'].map((value) => progress(token, value)),
      `{"jsonrpc":"2.0","id":"c","result":${DONE}}`,
    ]);
    const tokens = rounds().map(tokenOf);
    expect(tokens).toEqual(rounds().map(({ id }) => id));
    expect(new Set(tokens).size).toBe(3);
  });

  it('is not told to a client that wants none', async () => {
    const { client, rounds } = await asking([
      saying(ASKS, ({ id }) => [progress(String(id), '1')]),
      saying(DONE, ({ id }) => [progress(String(id), '2')]),
    ]);
    const reading = client.call('1');
    expect(await answered(client, reading)).toHaveLength(1);
    expect(rounds().map(tokenOf)).toEqual([undefined, undefined]);
  });
});

describe('log messages', () => {
  it('reach the client in every round, and so does what else a modern upstream says', async () => {
    const vendor = '{"jsonrpc":"2.0","method":"notifications/example.com/x","params":{"n":1.0}}';
    const { client } = await asking([
      saying(ASKS, () => [log('info'), vendor]),
      saying(ASKS, () => [log('emergency')]),
      saying(DONE, () => [log('error', '{"n":9223372036854775807}')]),
    ]);
    expect((await answered(client, client.call('1'))).slice(0, -1)).toEqual([
      log('info'),
      vendor,
      log('emergency'),
      log('error', '{"n":9223372036854775807}'),
    ]);
  });

  it('below the session’s level do not, and a higher one set between two rounds counts from the next on', async () => {
    const said = ['info', 'error', 'alert'].map((level) => log(level));
    const { client } = await asking([saying(ASKS, () => said), saying(ASKS, () => said), saying(DONE, () => said)]);
    await client.ask('logging/setLevel', '{"level":"error"}');
    const reading = client.call('"c"');
    await client.post(answerTo(await reading.message(2)));
    const second = await reading.message(5);
    await client.ask('logging/setLevel', '{"level":"alert"}');
    await client.post(answerTo(second));
    await reading.over;
    expect(reading.messages.filter((message) => message.includes('notifications/message'))).toEqual([
      ...[log('error'), log('alert')],
      ...[log('error'), log('alert')],
      log('alert'),
    ]);
  });
});

it('a request on a modern upstream’s stream is not put to the client: that era asks in another way', async () => {
  const { client } = await asking([saying(DONE, () => ['{"jsonrpc":"2.0","id":5,"method":"roots/list"}'])]);
  const reading = client.call('1');
  await reading.over;
  expect(reading.messages).toEqual([`{"jsonrpc":"2.0","id":1,"result":${DONE}}`]);
});

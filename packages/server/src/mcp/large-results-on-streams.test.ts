import { describe, expect, it } from 'vitest';
import { notification } from '../../testing/live-tests.ts';
import { eras, relayTests } from '../../testing/relay.ts';
import { type ResponseReader, type SessionClient, sessionClient } from '../../testing/session-client.ts';
import type { StreamedCall, Streamer } from '../../testing/streamer.ts';
import { COMMENTS, open, startImpatientService } from './fixtures/silence.ts';

const tests = relayTests(startImpatientService);

/** More than is held back. */
const TEXT = 'lorem ipsum '.repeat(10_000);
/** The parts of a result with every kind of line break between its tokens. */
const PARTS = [
  (id: string) => `{"jsonrpc":"2.0",\r\n"id":${id},\r"result":\n\n{"content":[{"type":"text","text":"${TEXT}`,
  () => `é\\n${TEXT}"}\r`,
  () => ',\n{"type":"text","text":"end"}]\n}}\n',
] as const;

/** What the client gets. */
const RESULT = PARTS.map((part) => part('"c"'))
  .join('')
  .replaceAll(/[\r\n]/g, ' ');

interface Calling {
  readonly upstream: Streamer;
  readonly url: string;
  readonly call: StreamedCall;
  readonly reader: ResponseReader;
}

const PARAMS = '{"name":"work"}';

/** A call whose client has the beginning of a stream, and whose upstream has begun a JSON response. */
async function calling(reading: (url: string) => ResponseReader | Promise<ResponseReader>): Promise<Calling> {
  const upstream = await tests.streamer();
  const url = await tests.register(upstream.url);
  const arriving = upstream.next();
  const reader = await reading(url);
  const call = await arriving;
  await reader.matching(COMMENTS);
  call.response.writeHead(200, { 'content-type': 'application/json' });
  return { upstream, url, call, reader };
}

/** A call in a session, whose stream can be resumed. */
async function inSession(): Promise<Calling & { client: SessionClient }> {
  let client: SessionClient | undefined;
  const parts = await calling(async (url) => {
    client = await sessionClient(url);
    return client.call('"c"');
  });
  if (!client) throw new Error('no client');
  return { ...parts, client };
}

const send = ({ call }: Calling, part: 0 | 1 | 2) => call.response.write(PARTS[part](call.id));
const BEGUN = /event: message\ndata: \{"jsonrpc".{100000}/;

/** Waits until a silent response would have got several comments. */
async function passTime({ url }: Calling): Promise<void> {
  const other = open({ era: 'modern', url, method: 'tools/call', params: PARAMS });
  await other.matching(COMMENTS);
  other.disconnect();
}

describe.each([
  ...eras.map((era) => ({
    client: `${era} client without a session`,
    begin: () =>
      calling(async (url) => {
        // The era of the upstream is known from here on.
        await sessionClient(url);
        return open({ era, url, method: 'tools/call', params: PARAMS });
      }),
  })),
  { client: 'client with a session', begin: inSession },
])('a large result on the stream of a $client', ({ begin }) => {
  it('arrives while it is sent, in one line without comments', async () => {
    const calling = await begin();
    send(calling, 0);
    await calling.reader.matching(BEGUN);
    await passTime(calling);
    send(calling, 1);
    await calling.reader.matching(/\\n.{100000}/);
    await passTime(calling);
    send(calling, 2);
    calling.call.response.end();
    expect(await calling.reader.ended).toBe(true);
    expect(calling.reader.messages).toEqual([RESULT]);
    expect(calling.reader.text.slice(calling.reader.text.indexOf('event: message'))).toMatch(
      /^event: message\ndata: .*(\nid: [^\n]+)?\n\n$/,
    );
  });

  it('that turns out to be damaged breaks the connection', async () => {
    const calling = await begin();
    send(calling, 0);
    await calling.reader.matching(BEGUN);
    calling.call.response.end('"}]}]');
    expect(await calling.reader.ended).toBe(false);
    expect(calling.reader.messages).toEqual([]);
  });
});

describe('a large result on a stream that can be resumed', () => {
  it.each([0, 1, 2] as const)(
    'is whole on the next connection if the first one is lost after part %i',
    async (lost) => {
      const parts = await inSession();
      for (const part of [0, 1, 2] as const) {
        send(parts, part);
        if (part !== lost) continue;
        await parts.reader.matching(lost === 0 ? BEGUN : /\\n.{100000}/);
        parts.reader.disconnect();
        await parts.reader.ended;
      }
      const again = parts.client.listen(parts.reader.lastId);
      await again.matching(COMMENTS);
      parts.call.response.end();
      expect(await again.ended).toBe(true);
      expect(again.messages).toEqual([RESULT]);
      // And again, after its id.
      const third = parts.client.listen(again.lastId);
      expect(await third.ended).toBe(true);
      expect(third.messages).toEqual([]);
    },
  );

  it('arrives while it is sent on a connection that resumed the stream before', async () => {
    const parts = await inSession();
    parts.reader.disconnect();
    await parts.reader.ended;
    const again = parts.client.listen(parts.reader.lastId);
    await again.matching(COMMENTS);
    send(parts, 0);
    await again.matching(BEGUN);
    await passTime(parts);
    send(parts, 1);
    send(parts, 2);
    parts.call.response.end();
    expect(await again.ended).toBe(true);
    expect(again.messages).toEqual([RESULT]);
  });

  it('that turns out to be damaged is replaced by an error', async () => {
    const parts = await inSession();
    send(parts, 0);
    await parts.reader.matching(BEGUN);
    parts.call.response.destroy();
    expect(await parts.reader.ended).toBe(false);
    const again = parts.client.listen(parts.reader.lastId);
    expect(await again.ended).toBe(true);
    expect(JSON.parse(again.messages[0] ?? '')).toMatchObject({ id: 'c', error: { code: -32603 } });
  });

  it('ends without a message when its call is canceled', async () => {
    const parts = await inSession();
    send(parts, 0);
    await parts.reader.matching(BEGUN);
    await parts.client.post(notification('cancelled', '{"requestId":"c"}'));
    expect(await parts.reader.ended).toBe(false);
    await expect.poll(() => parts.call.isDisconnected).toBe(true);
    expect(parts.reader.messages).toEqual([]);
  });
});

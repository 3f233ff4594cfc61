import { describe, expect, it } from 'vitest';
import {
  ALL_CAPABILITIES,
  InteractiveClient,
  inputRequired,
  resultText,
} from '../../../../testing/interactive-client.ts';
import { liveTests, notification } from '../../../../testing/live-tests.ts';
import type { LiveUpstream } from '../../../../testing/live-upstream.ts';

const { live } = liveTests();

const ALL = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'];
const log = (level: string) => notification('message', `{"level":"${level}","data":9223372036854775807}`);
const wanting = (level: string) => ({ meta: `"io.modelcontextprotocol/logLevel":"${level}"` });
const received = (upstream: LiveUpstream) => upstream.of('logging/setLevel').map(({ params }) => params.level);

/** Log messages that reach the client during a call in which the upstream logs on each level. */
async function heard(client: InteractiveClient, upstream: LiveUpstream, level?: string): Promise<readonly string[]> {
  const reading = client.send(level === undefined ? {} : wanting(level));
  const call = await upstream.calls.next();
  call.begin();
  for (const one of ALL) call.send(log(one));
  call.end('done');
  expect(await resultText(reading)).toBe('done');
  return reading.messages.slice(0, -1);
}

/** Both kinds of upstream sessions of modern clients: exclusive to a call, and shared. */
const clients = [
  ['that can be asked', ALL_CAPABILITIES],
  ['that cannot be asked', '{}'],
] as const;

describe.each(clients)('the log level of a request of a client %s', (_what, capabilities) => {
  it('is the least level it gets, and without one it gets no log messages', async () => {
    const { upstream, url } = await live();
    const client = new InteractiveClient(url, capabilities);
    expect(await heard(client, upstream)).toEqual([]);
    expect(received(upstream)).toEqual([]);
    for (const [at, level] of ALL.entries()) {
      expect(await heard(client, upstream, level)).toEqual(ALL.slice(at).map(log));
    }
    expect(await heard(client, upstream)).toEqual([]);
  });

  it('is set at the upstream before the call if the level of the session is higher', async () => {
    const { upstream, url } = await live();
    const client = new InteractiveClient(url, capabilities);
    for (const level of ['error', 'critical', 'error', 'info', 'warning', 'debug', 'info', 'debug']) {
      await heard(client, upstream, level);
    }
    expect(received(upstream)).toEqual(['error', 'info', 'debug']);
    const sessions = new Set(upstream.of('logging/setLevel').map(({ session }) => session));
    expect([...sessions]).toEqual([upstream.calls.all[0]?.session]);
  });

  it('is not set at an upstream without logging', async () => {
    const { upstream, url } = await live({ capabilities: '{"tools":{}}' });
    expect(await heard(new InteractiveClient(url, capabilities), upstream, 'error')).toHaveLength(4);
    expect(received(upstream)).toEqual([]);
  });

  it('is set once at an upstream that rejects it, and the call continues', async () => {
    const { upstream, url } = await live();
    upstream.results['logging/setLevel'] = '"error":{"code":-32603,"message":"m"}';
    const client = new InteractiveClient(url, capabilities);
    expect(await heard(client, upstream, 'error')).toEqual(ALL.slice(4).map(log));
    expect(await heard(client, upstream, 'error')).toEqual(ALL.slice(4).map(log));
    expect(received(upstream)).toEqual(['error']);
  });

  it('applies to its own call among concurrent ones', async () => {
    const { upstream, url } = await live();
    const client = new InteractiveClient(url, capabilities);
    const levels = ['debug', 'error', undefined];
    const calls = [];
    for (const level of levels) {
      const reading = client.send(level === undefined ? {} : wanting(level));
      const call = await upstream.calls.next();
      call.begin();
      calls.push({ reading, call });
    }
    for (const { call } of calls) for (const level of ALL) call.send(log(level));
    for (const { call } of calls) call.end('done');
    const texts = await Promise.all(
      calls.map(async ({ reading }) => {
        await resultText(reading);
        return reading.messages.slice(0, -1);
      }),
    );
    expect(texts).toEqual([ALL.map(log), ALL.slice(4).map(log), []]);
  });
});

describe('log messages on the stream of a session', () => {
  it('reach the call that leased the session, from its level on', async () => {
    const { upstream, url } = await live();
    const client = new InteractiveClient(url);
    const begun = async (level?: string) => {
      const reading = client.send(level === undefined ? {} : wanting(level));
      const call = await upstream.calls.next();
      const stream = await upstream.streams.next();
      expect(stream.session).toBe(call.session);
      return { reading, call, stream };
    };
    const [wants, other, silent] = [await begun('error'), await begun('error'), await begun()];
    for (const level of ALL) wants.stream.send(log(level));
    for (const level of ALL) silent.stream.send(log(level));
    await wants.reading.message(3);
    for (const { call } of [wants, other, silent]) call.json('done');
    for (const { reading } of [wants, other, silent]) expect(await resultText(reading)).toBe('done');
    expect(wants.reading.messages.slice(0, -1)).toEqual(ALL.slice(4).map(log));
    expect([other, silent].map(({ reading }) => reading.messages.length)).toEqual([1, 1]);
  });

  it('are dropped after the call', async () => {
    const { upstream, url } = await live();
    const client = new InteractiveClient(url);
    const reading = client.send(wanting('debug'));
    const call = await upstream.calls.next();
    const stream = await upstream.streams.next();
    call.json('done');
    await resultText(reading);
    stream.send(log('error'));
    stream.send('{"jsonrpc":"2.0","id":"p","method":"ping"}');
    await expect.poll(upstream.answers).toHaveLength(1);
    const next = client.send(wanting('debug'));
    const nextCall = await upstream.calls.next();
    nextCall.begin();
    nextCall.request('1', 'roots/list');
    await inputRequired(next);
    expect(next.messages).toHaveLength(1);
  });
});

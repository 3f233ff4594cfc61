import { describe, expect, it } from 'vitest';
import { ASKABLE, AskableClient, inputRequired, resultText } from '../../../../testing/askable-client.ts';
import { liveTests, notification } from '../../../../testing/live.ts';
import type { LiveUpstream } from '../../../../testing/live-upstream.ts';

const { live } = liveTests();

const ALL = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'];
const log = (level: string) => notification('message', `{"level":"${level}","data":9223372036854775807}`);
const wanting = (level: string) => ({ meta: `"io.modelcontextprotocol/logLevel":"${level}"` });
const told = (upstream: LiveUpstream) => upstream.of('logging/setLevel').map(({ params }) => params.level);

/** A call during which the upstream logs on each level; what of it reaches the client. */
async function heard(client: AskableClient, upstream: LiveUpstream, level?: string): Promise<readonly string[]> {
  const reading = client.send(level === undefined ? {} : wanting(level));
  const call = await upstream.calls.next();
  call.begin();
  for (const one of ALL) call.send(log(one));
  call.end('done');
  expect(await resultText(reading)).toBe('done');
  return reading.messages.slice(0, -1);
}

/** Both kinds of session that a modern client's calls have: one for each call, and one that is shared. */
const clients = [
  ['that can be asked', ASKABLE],
  ['that cannot be asked', '{}'],
] as const;

describe.each(clients)('the log level of a request of a client %s', (_what, capabilities) => {
  it('is what it is sent from on, and without one it is sent nothing', async () => {
    const { upstream, url } = await live();
    const client = new AskableClient(url, capabilities);
    expect(await heard(client, upstream)).toEqual([]);
    expect(told(upstream)).toEqual([]);
    for (const [at, level] of ALL.entries()) {
      expect(await heard(client, upstream, level)).toEqual(ALL.slice(at).map(log));
    }
    expect(await heard(client, upstream)).toEqual([]);
  });

  it('is told to the upstream before the call, when its session sends less so far', async () => {
    const { upstream, url } = await live();
    const client = new AskableClient(url, capabilities);
    for (const level of ['error', 'critical', 'error', 'info', 'warning', 'debug', 'info', 'debug']) {
      await heard(client, upstream, level);
    }
    expect(told(upstream)).toEqual(['error', 'info', 'debug']);
    const sessions = new Set(upstream.of('logging/setLevel').map(({ session }) => session));
    expect([...sessions]).toEqual([upstream.calls.all[0]?.session]);
  });

  it('is not told to an upstream that does not log', async () => {
    const { upstream, url } = await live({ capabilities: '{"tools":{}}' });
    expect(await heard(new AskableClient(url, capabilities), upstream, 'error')).toHaveLength(4);
    expect(told(upstream)).toEqual([]);
  });

  it('is told once to an upstream that refuses it, and the call goes on', async () => {
    const { upstream, url } = await live();
    upstream.results['logging/setLevel'] = '"error":{"code":-32603,"message":"m"}';
    const client = new AskableClient(url, capabilities);
    expect(await heard(client, upstream, 'error')).toEqual(ALL.slice(4).map(log));
    expect(await heard(client, upstream, 'error')).toEqual(ALL.slice(4).map(log));
    expect(told(upstream)).toEqual(['error']);
  });

  it('is its own: calls at the same time are sent what each asks for', async () => {
    const { upstream, url } = await live();
    const client = new AskableClient(url, capabilities);
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

describe('log messages on a session’s own stream', () => {
  it('reach the one call that has the session, as far as it wants them', async () => {
    const { upstream, url } = await live();
    const client = new AskableClient(url);
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

  it('reach nobody when they come after the call', async () => {
    const { upstream, url } = await live();
    const client = new AskableClient(url);
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
    nextCall.ask('1', 'roots/list');
    await inputRequired(next);
    expect(next.messages).toHaveLength(1);
  });
});

import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { toolList, toolText } from '../../../../../../test/fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from '../../../../../../test/fixtures/raw-upstream.ts';
import { AskableClient, failure, inputRequired, lastMessage, resultText } from '../../../../testing/askable-client.ts';
import { liveTests } from '../../../../testing/live.ts';
import { startTestService } from '../../../../testing/service.ts';
import { type Calling, parked } from './fixtures/calling.ts';

const tests = liveTests();
const { live, onEnd } = tests;

const NOT_HELD = { status: 200, code: -32603, data: { kind: 'not_held' } };

/** A service of its own, with these settings. */
async function serviceWith(env: Readonly<Record<string, string>>) {
  const service = await startTestService(env);
  onEnd(() => service.stop(0));
  return service;
}

/** Resolves when the end of a call has come through: its session is the next one's. */
async function over({ client, upstream, call }: Pick<Calling, 'client' | 'upstream' | 'call'>) {
  const session = async () => {
    const next = client.send();
    const nextCall = await upstream.calls.next();
    nextCall.json('next');
    await resultText(next);
    return nextCall.session;
  };
  await expect.poll(session).toBe(call.session);
}

describe('a parked call whose upstream does not wait', () => {
  it('gives its retry the result that came meanwhile', async () => {
    const { client, call, asked, answers, upstream } = await parked(live);
    call.end('early');
    await over({ client, call, upstream });
    const last = client.retry(asked.state, answers, { id: '"last \\u0041"' });
    expect(await lastMessage(last)).toBe(
      '{"jsonrpc":"2.0","id":"last \\u0041","result":{"resultType":"complete","content":[{"type":"text","text":"early"}]}}',
    );
    expect((await last.head).headers['content-type']).toBe('application/json');
    // Nobody waits for the answers any more.
    expect(upstream.answers()).toEqual([]);
  });

  it('gives its retry the JSON that came meanwhile', async () => {
    const { upstream, url } = await live();
    const client = new AskableClient(url);
    const first = client.send();
    const call = await upstream.calls.next();
    (await upstream.streams.next()).send('{"jsonrpc":"2.0","id":1,"method":"roots/list"}');
    const asked = await inputRequired(first);
    call.json('early');
    await over({ client, call, upstream });
    expect(await resultText(client.retry(asked.state, '{}'))).toBe('early');
  });

  it('gives its retry the error that came meanwhile', async () => {
    const { client, call, asked, upstream } = await parked(live);
    call.send(`{"jsonrpc":"2.0","id":${call.id},"error":{"code":-32050,"message":"m","data":{"n":1.0}}}`);
    await over({ client, call, upstream });
    const last = client.retry(asked.state, '{}');
    expect(await lastMessage(last)).toContain('"error":{"code":-32050,"message":"m","data":{"n":1.0}}');
  });

  it('gives its retry the failure when the upstream dies', async () => {
    const { upstream, client, asked, answers } = await parked(live);
    await upstream.down();
    expect(await failure(client.retry(asked.state, answers))).toEqual({
      status: 200,
      code: -32603,
      message: expect.stringMatching(/^forwarded tool call failed: upstream /),
    });
    await upstream.up();
    expect(await failure(client.retry(asked.state, answers))).toMatchObject(NOT_HELD);
  });

  it('goes on though the upstream does not want the answer any more', async () => {
    const { upstream, client, call, asked, answers } = await parked(live);
    upstream.acceptStatus = 400;
    const last = client.retry(asked.state, answers);
    await expect.poll(upstream.answers).toHaveLength(1);
    call.end('done without');
    expect(await resultText(last)).toBe('done without');
  });

  it.each([401, 404, 503])('fails when the upstream answers the answer with HTTP %i', async (status) => {
    const { upstream, client, call, asked, answers } = await parked(live);
    upstream.acceptStatus = status;
    expect(await failure(client.retry(asked.state, answers))).toEqual({
      status: 200,
      code: -32603,
      message: `forwarded tool call failed: upstream ${upstream.url} answered with HTTP ${status}`,
    });
    await expect.poll(() => call.left).toBe(true);
    expect(upstream.answers()).toHaveLength(1);
    expect(upstream.calls.all).toHaveLength(1);
  });

  it('fails when the answer cannot be brought to the upstream', async () => {
    const { upstream, client, asked, answers } = await parked(live);
    // Calls that are open go on.
    upstream.shut();
    const last = client.retry(asked.state, answers);
    expect((await failure(last)).message).toMatch(/^forwarded tool call failed: upstream .* refused/);
  });
});

describe('a parked call whose client does not come back', () => {
  it('is cancelled upstream when its time is over', async () => {
    const on = await serviceWith({ SERVICE_PARKED_CALL_TIMEOUT_MS: '200' });
    const { upstream, client, call, asked, answers } = await parked(live, { on });
    await expect.poll(() => upstream.of('notifications/cancelled')).toHaveLength(1);
    expect(upstream.of('notifications/cancelled')[0]).toMatchObject({
      session: call.session,
      params: { requestId: Number(call.id), reason: 'the client has left' },
    });
    await expect.poll(() => upstream.sessions.has(call.session)).toBe(false);
    await expect.poll(() => call.left).toBe(true);
    expect(await failure(client.retry(asked.state, answers))).toMatchObject({
      ...NOT_HELD,
      message: expect.stringContaining('waited too long'),
    });
  });

  it('is not cancelled when it had its answer before', async () => {
    const on = await serviceWith({ SERVICE_PARKED_CALL_TIMEOUT_MS: '1500' });
    const { url, upstream, client, call, asked } = await parked(live, { on });
    call.end('done');
    // Its time is over later.
    const other = new AskableClient(url).send();
    const otherCall = await upstream.calls.next();
    otherCall.begin();
    otherCall.ask('8', 'roots/list');
    await inputRequired(other);
    await expect.poll(() => upstream.of('notifications/cancelled')).toHaveLength(1);
    expect(upstream.of('notifications/cancelled')[0]?.params.requestId).toBe(Number(otherCall.id));
    expect(await failure(client.retry(asked.state, '{}'))).toMatchObject(NOT_HELD);
  });

  it('is not ended by its upstream’s silence, but by its whole length', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
    onTestFinished(() => void vi.useRealTimers());
    const on = await serviceWith({ SERVICE_UPSTREAM_IDLE_TIMEOUT_MS: '50', SERVICE_UPSTREAM_MAX_TIMEOUT_MS: '600' });
    const { upstream, client, asked, answers } = await parked(live, { on });
    vi.advanceTimersByTime(700);
    await expect.poll(() => upstream.of('notifications/cancelled')).toHaveLength(1);
    expect(upstream.of('notifications/cancelled')[0]?.params.reason).toBe('it took too long');
    const { message } = await failure(client.retry(asked.state, answers));
    expect(message).toMatch(/did not finish within 0.6 s/);
  });

  it('is cancelled also when its forward is gone', async () => {
    const on = await serviceWith({ SERVICE_PARKED_CALL_TIMEOUT_MS: '300' });
    const { upstream, url, client, asked, answers } = await parked(live, { on });
    const name = new URL(url).pathname.split('/')[1];
    expect((await on.manage('DELETE', `/forwards/${name}`)).status).toBe(200);
    expect(await failure(client.retry(asked.state, answers))).toMatchObject({ code: -32602 });
    await expect.poll(() => upstream.of('notifications/cancelled')).toHaveLength(1);
    await expect.poll(() => upstream.sessions.size).toBe(0);
  });
});

describe('a call whose client leaves', () => {
  it('during its retry is cancelled upstream, and its session is nobody else’s', async () => {
    const { upstream, client, call, asked, answers } = await parked(live);
    const second = client.retry(asked.state, answers);
    await expect.poll(upstream.answers).toHaveLength(1);
    second.leave();
    await expect.poll(() => upstream.of('notifications/cancelled')).toHaveLength(1);
    expect(upstream.of('notifications/cancelled')[0]?.params.requestId).toBe(Number(call.id));
    const next = client.send();
    const nextCall = await upstream.calls.next();
    expect(nextCall.session).not.toBe(call.session);
    nextCall.json('next');
    expect(await resultText(next)).toBe('next');
    await expect.poll(() => upstream.sessions.has(call.session)).toBe(false);
    expect(await failure(client.retry(asked.state, answers))).toMatchObject(NOT_HELD);
  });
});

describe('when the service stops', () => {
  it('every upstream is told that its calls are cancelled before their sessions are ended', async () => {
    const service = await startTestService();
    const upstreams = await Promise.all(
      ['a', 'b'].map(async (tool) => {
        const upstream = await startRawUpstream({
          eras: ['legacy'],
          scripts: {
            'tools/list': toolList(toolText(tool)),
            'tools/call': ({ session }) => {
              upstream.push('{"jsonrpc":"2.0","id":1,"method":"roots/list"}', {}, session);
              return { kind: 'silence' };
            },
          },
        });
        onEnd(upstream.close);
        await service.register('forwards', { name: tool, address: upstream.url });
        return upstream;
      }),
    );
    const client = new AskableClient(service.url());
    const waiting = ['a', 'b', 'a', 'b', 'a'].map((name) => inputRequired(client.send({ params: `"name":"${name}"` })));
    await Promise.all(waiting);
    const began = performance.now();
    await service.stop();
    expect(performance.now() - began).toBeLessThan(15_000);
    for (const [number, { seen, sessions, streams }] of upstreams.entries()) {
      const calls = seen.filter(({ method }) => method === 'tools/call');
      expect(calls).toHaveLength(number === 0 ? 3 : 2);
      for (const { id, session } of calls) {
        const cancel = seen.findIndex((one) => one.session === session && one.method === 'notifications/cancelled');
        const end = seen.findIndex((one) => one.session === session && one.http === 'DELETE');
        expect(seen[cancel]?.params.requestId).toBe(Number(id));
        expect(end).toBeGreaterThan(cancel);
      }
      expect([sessions(), streams()]).toEqual([0, 0]);
    }
  });
});

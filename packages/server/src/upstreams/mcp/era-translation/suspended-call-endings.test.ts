import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { toolList, toolText } from '../../../../../../test/fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from '../../../../../../test/fixtures/raw-upstream.ts';
import {
  failure,
  InteractiveClient,
  inputRequired,
  lastMessage,
  resultText,
} from '../../../../testing/interactive-client.ts';
import { liveTests } from '../../../../testing/live-tests.ts';
import { startTestService } from '../../../../testing/service.ts';
import { type StartedCall, suspendedCall } from './fixtures/suspended-call.ts';

const tests = liveTests();
const { live, onEnd } = tests;

const NOT_HELD = { status: 200, code: -32603, data: { kind: 'not_held' } };

/** A separate service with these settings. */
async function serviceWith(env: Readonly<Record<string, string>>) {
  const service = await startTestService(env);
  onEnd(() => service.stop(0));
  return service;
}

/** Resolves once the end of a call was processed: the next call reuses its session. */
async function over({ client, upstream, call }: Pick<StartedCall, 'client' | 'upstream' | 'call'>) {
  const session = async () => {
    const next = client.send();
    const nextCall = await upstream.calls.next();
    nextCall.json('next');
    await resultText(next);
    return nextCall.session;
  };
  await expect.poll(session).toBe(call.session);
}

describe('a suspended call whose upstream does not wait', () => {
  it('returns the result that arrived meanwhile to its retry', async () => {
    const { client, call, pending, answers, upstream } = await suspendedCall(live);
    call.end('early');
    await over({ client, call, upstream });
    const last = client.retry(pending.state, answers, { id: '"last \\u0041"' });
    expect(await lastMessage(last)).toBe(
      '{"jsonrpc":"2.0","id":"last \\u0041","result":{"resultType":"complete","content":[{"type":"text","text":"early"}]}}',
    );
    expect((await last.head).headers['content-type']).toBe('application/json');
    // The upstream does not wait for the responses any more.
    expect(upstream.answers()).toEqual([]);
  });

  it('returns the JSON response that arrived meanwhile to its retry', async () => {
    const { upstream, url } = await live();
    const client = new InteractiveClient(url);
    const first = client.send();
    const call = await upstream.calls.next();
    (await upstream.streams.next()).send('{"jsonrpc":"2.0","id":1,"method":"roots/list"}');
    const pending = await inputRequired(first);
    call.json('early');
    await over({ client, call, upstream });
    expect(await resultText(client.retry(pending.state, '{}'))).toBe('early');
  });

  it('returns the error that arrived meanwhile to its retry', async () => {
    const { client, call, pending, upstream } = await suspendedCall(live);
    call.send(`{"jsonrpc":"2.0","id":${call.id},"error":{"code":-32050,"message":"m","data":{"n":1.0}}}`);
    await over({ client, call, upstream });
    const last = client.retry(pending.state, '{}');
    expect(await lastMessage(last)).toContain('"error":{"code":-32050,"message":"m","data":{"n":1.0}}');
  });

  it('returns the failure to its retry if the upstream dies', async () => {
    const { upstream, client, pending, answers } = await suspendedCall(live);
    await upstream.down();
    expect(await failure(client.retry(pending.state, answers))).toEqual({
      status: 200,
      code: -32603,
      message: expect.stringMatching(/^forwarded tool call failed: upstream /),
    });
    await upstream.up();
    expect(await failure(client.retry(pending.state, answers))).toMatchObject(NOT_HELD);
  });

  it('continues if the upstream rejects the response to its request', async () => {
    const { upstream, client, call, pending, answers } = await suspendedCall(live);
    upstream.acceptStatus = 400;
    const last = client.retry(pending.state, answers);
    await expect.poll(upstream.answers).toHaveLength(1);
    call.end('done without');
    expect(await resultText(last)).toBe('done without');
  });

  it.each([
    [401, 'answered a message with HTTP 401; set its credentials in "headers" of the forward'],
    [
      404,
      'no longer knows the session: it answered a message with HTTP 404; if it runs as several instances, route all requests of a session to the same one',
    ],
    [503, 'answered a message with HTTP 503; a proxy in front of it cannot reach it: check that it runs'],
  ])('fails if the upstream answers the response with HTTP %i', async (status, what) => {
    const { upstream, client, call, pending, answers } = await suspendedCall(live);
    upstream.acceptStatus = status;
    expect(await failure(client.retry(pending.state, answers))).toEqual({
      status: 200,
      code: -32603,
      message: `forwarded tool call failed: upstream ${upstream.url} ${what}`,
    });
    await expect.poll(() => call.isDisconnected).toBe(true);
    expect(upstream.answers()).toHaveLength(1);
    expect(upstream.calls.all).toHaveLength(1);
  });

  it('fails if the response cannot be sent to the upstream', async () => {
    const { upstream, client, pending, answers } = await suspendedCall(live);
    // Open calls continue.
    upstream.shut();
    const last = client.retry(pending.state, answers);
    expect((await failure(last)).message).toMatch(/^forwarded tool call failed: upstream .* refused/);
  });
});

describe('a suspended call without a retry', () => {
  it('is canceled upstream when its time is over', async () => {
    const on = await serviceWith({ SERVICE_SUSPENDED_CALL_TIMEOUT_MS: '200' });
    const { upstream, client, call, pending, answers } = await suspendedCall(live, { on });
    await expect.poll(() => upstream.of('notifications/cancelled')).toHaveLength(1);
    expect(upstream.of('notifications/cancelled')[0]).toMatchObject({
      session: call.session,
      params: { requestId: JSON.parse(call.id), reason: 'the client has disconnected' },
    });
    await expect.poll(() => upstream.sessions.has(call.session)).toBe(false);
    await expect.poll(() => call.isDisconnected).toBe(true);
    expect(await failure(client.retry(pending.state, answers))).toMatchObject({
      ...NOT_HELD,
      message: expect.stringContaining('its input came too late'),
    });
  });

  it('is not canceled if its response arrived before', async () => {
    const on = await serviceWith({ SERVICE_SUSPENDED_CALL_TIMEOUT_MS: '1500' });
    const { url, upstream, client, call, pending } = await suspendedCall(live, { on });
    call.end('done');
    // Its deadline is later.
    const other = new InteractiveClient(url).send();
    const otherCall = await upstream.calls.next();
    otherCall.begin();
    otherCall.request('8', 'roots/list');
    await inputRequired(other);
    await expect.poll(() => upstream.of('notifications/cancelled')).toHaveLength(1);
    expect(upstream.of('notifications/cancelled')[0]?.params.requestId).toBe(JSON.parse(otherCall.id));
    expect(await failure(client.retry(pending.state, '{}'))).toMatchObject(NOT_HELD);
  });

  it('is not ended by the silence of its upstream, but by its total time', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
    onTestFinished(() => void vi.useRealTimers());
    const on = await serviceWith({ SERVICE_UPSTREAM_IDLE_TIMEOUT_MS: '50', SERVICE_UPSTREAM_MAX_TIMEOUT_MS: '600' });
    const { upstream, client, pending, answers } = await suspendedCall(live, { on });
    vi.advanceTimersByTime(700);
    await expect.poll(() => upstream.of('notifications/cancelled')).toHaveLength(1);
    expect(upstream.of('notifications/cancelled')[0]?.params.reason).toBe('it took too long');
    const { message } = await failure(client.retry(pending.state, answers));
    expect(message).toMatch(/did not finish within 0.6 s/);
  });

  it('is canceled also if its forward was deleted', async () => {
    const on = await serviceWith({ SERVICE_SUSPENDED_CALL_TIMEOUT_MS: '300' });
    const { upstream, url, client, pending, answers } = await suspendedCall(live, { on });
    const name = new URL(url).pathname.split('/')[1];
    expect((await on.manage('DELETE', `/forwards/${name}`)).status).toBe(200);
    expect(await failure(client.retry(pending.state, answers))).toMatchObject({ code: -32602 });
    await expect.poll(() => upstream.of('notifications/cancelled')).toHaveLength(1);
    await expect.poll(() => upstream.sessions.size).toBe(0);
  });
});

describe('a call whose client disconnects', () => {
  it('during its retry is canceled upstream, and its session is not reused', async () => {
    const { upstream, client, call, pending, answers } = await suspendedCall(live);
    const second = client.retry(pending.state, answers);
    await expect.poll(upstream.answers).toHaveLength(1);
    second.disconnect();
    await expect.poll(() => upstream.of('notifications/cancelled')).toHaveLength(1);
    expect(upstream.of('notifications/cancelled')[0]?.params.requestId).toBe(JSON.parse(call.id));
    const next = client.send();
    const nextCall = await upstream.calls.next();
    expect(nextCall.session).not.toBe(call.session);
    nextCall.json('next');
    expect(await resultText(next)).toBe('next');
    await expect.poll(() => upstream.sessions.has(call.session)).toBe(false);
    expect(await failure(client.retry(pending.state, answers))).toMatchObject(NOT_HELD);
  });
});

describe('when the service stops', () => {
  it('calls are canceled at every upstream before their sessions are closed', async () => {
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
    const client = new InteractiveClient(service.url());
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
        expect(seen[cancel]?.params.requestId).toBe(JSON.parse(id ?? 'null'));
        expect(end).toBeGreaterThan(cancel);
      }
      expect([sessions(), streams()]).toEqual([0, 0]);
    }
  });
});

import { once } from 'node:events';
import { request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { legacyClient, post } from '../../../../../../test/fixtures/raw-client.ts';
import type { Era } from '../../../../../../test/fixtures/raw-upstream/message.ts';
import { eras, errorOf, relayTests } from '../../../../testing/relay.ts';
import { startTestService, type TestService } from '../../../../testing/service.ts';
import { callHeaders, callText, openCall, type StreamedCall } from '../../../../testing/streamer.ts';

const { register, streamer, upstreamWith } = relayTests();

const nothing = () => undefined;

describe('deadlines', () => {
  const SILENCE_MS = 800;
  const TOTAL_MS = 2_500;
  let hasty: TestService;
  beforeAll(async () => {
    // The clock of the limits, controlled by the tests.
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
    hasty = await startTestService({
      SERVICE_UPSTREAM_IDLE_TIMEOUT_MS: String(SILENCE_MS),
      SERVICE_UPSTREAM_MAX_TIMEOUT_MS: String(TOTAL_MS),
    });
  });
  afterAll(() => {
    vi.useRealTimers();
    return hasty.stop(0);
  });

  /**
   * Calls the tool and repeats an action of the upstream until the service disconnects, while the clock advances in steps.
   * Returns the error and the elapsed milliseconds.
   */
  async function failing(era: Era, begin: (call: StreamedCall) => unknown, again: (call: StreamedCall) => unknown) {
    const upstream = await streamer();
    const url = await register(upstream.url, {}, hasty);
    const arrived = upstream.next();
    const before = performance.now();
    const response = post(url, callText(era, '"progressToken":1'), callHeaders(era));
    const call = await arrived;
    begin(call);
    while (!call.isDisconnected) {
      again(call);
      // Written data is read meanwhile.
      await delay(5);
      vi.advanceTimersByTime(50);
    }
    const ms = performance.now() - before;
    return { ...errorOf(await response), ms };
  }

  const silence = {
    code: -32603,
    message: expect.stringMatching(/^forwarded tool call failed: upstream \S+ sent nothing for 0\.8 s$/),
  };

  it.each(eras)('end a call whose upstream is silent, with a message (%s)', async (era) => {
    const { ms, ...error } = await failing(era, nothing, nothing);
    expect(error).toEqual(silence);
    expect(ms).toBeGreaterThan(SILENCE_MS);
  });

  it('end a call whose stream becomes silent, with or without comments', async () => {
    const { ms, ...error } = await failing(
      'modern',
      (call) => call.begin(),
      ({ response }) => response.write(': still here\n\n'),
    );
    expect(error).toEqual(silence);
    expect(ms).toBeLessThan(TOTAL_MS);
  });

  it('end a call whose JSON stalls', async () => {
    const head = { 'content-type': 'application/json', 'content-length': '100' };
    const { ms: _, ...error } = await failing(
      'modern',
      ({ response }) => response.writeHead(200, head).write('{"jsonrpc":'),
      nothing,
    );
    expect(error).toEqual(silence);
  });

  it('are extended by progress, up to the total limit', async () => {
    let progress = 0;
    const { ms, ...error } = await failing(
      'modern',
      (call) => call.begin(),
      (call) => call.progress(++progress),
    );
    expect(error).toEqual({
      code: -32603,
      message: expect.stringMatching(/^forwarded tool call failed: upstream \S+ did not finish within 2\.5 s$/),
    });
    expect(ms).toBeGreaterThan(TOTAL_MS);
  });

  it('include opening a session', async () => {
    const upstream = await upstreamWith({}, { eras: ['legacy'] });
    const caller = await legacyClient(await register(upstream.url, {}, hasty));
    await expect.poll(() => upstream.streams()).toBe(1);
    const opened = upstream.count('initialize');
    upstream.scripts.initialize = { kind: 'silence' };
    const response = caller.call('tools/call', '{"name":"a"}');
    await expect.poll(() => upstream.count('initialize')).toBe(opened + 1);
    // The separate limit of 30 s for opening a session does not apply.
    vi.advanceTimersByTime(SILENCE_MS + 200);
    expect(errorOf(await response)).toEqual(silence);
    expect(upstream.count('tools/call')).toBe(0);
  });
});

describe('a client that disconnects', () => {
  it('aborts the upstream call if it is modern', async () => {
    const upstream = await streamer();
    const url = await register(upstream.url);
    const [before, during] = [
      upstream.next(),
      openCall(url, callText('modern', '"progressToken":1'), callHeaders('modern')),
    ];
    const call = await before;
    call.begin();
    call.progress(1);
    const response = await during;
    await once(response, 'data');
    response.destroy();
    await expect.poll(() => call.isDisconnected).toBe(true);
  });

  it('aborts a call before any response, too', async () => {
    const upstream = await streamer();
    const url = await register(upstream.url);
    const arrived = upstream.next();
    const req = request(url, { method: 'POST', headers: callHeaders('modern'), agent: false });
    req.on('error', () => undefined);
    req.end(callText('modern', '"progressToken":1'));
    const call = await arrived;
    req.destroy();
    await expect.poll(() => call.isDisconnected).toBe(true);
  });

  it('leaves the call running if it is legacy', async () => {
    const upstream = await streamer();
    const url = await register(upstream.url);
    const arrived = upstream.next();
    const opened = openCall(url, callText('legacy', '"progressToken":1'), callHeaders('legacy'));
    const call = await arrived;
    call.begin();
    call.progress(1);
    const response = await opened;
    await once(response, 'data');
    response.destroy();
    await once(response, 'close');
    // Enough round trips to detect a disconnect.
    for (let i = 0; i < 5; i++) await post(url, '{"jsonrpc":"2.0","id":1,"method":"ping"}');
    call.progress(2);
    call.end('x');
    await expect.poll(() => call.response.writableFinished).toBe(true);
    expect(call.isDisconnected).toBe(false);
  });
});

describe('a client that reads slowly', () => {
  it.each(eras)('slows the upstream down without buffering or losing data (%s)', async (era) => {
    const upstream = await streamer();
    const url = await register(upstream.url);
    const arrived = upstream.next();
    const meta = era === 'modern' ? '"io.modelcontextprotocol/logLevel":"info"' : '';
    const opened = openCall(url, callText(era, meta), callHeaders(era));
    const call = await arrived;
    call.begin();
    const padding = 'x'.repeat(64 * 1024);
    const total = 1_000;
    let sent = 0;
    const flood = async () => {
      for (; sent < total; sent++) {
        const note = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","n":${sent},"data":"${padding}"}}`;
        if (!call.response.write(`data: ${note}\n\n`)) await once(call.response, 'drain');
      }
      call.end('x');
    };
    const flooding = flood();
    const response = await opened;
    response.pause();
    // Upstream, gateway and client share one event loop: pending data would arrive in this many round trips.
    let quiet = 0;
    while (quiet < 30 && sent < total) {
      const before = sent;
      await post(url, '{"jsonrpc":"2.0","id":1,"method":"ping"}');
      await delay(5);
      quiet = sent > 0 && sent === before ? quiet + 1 : 0;
    }
    expect(sent).toBeLessThan(total / 2);
    const numbers: string[] = [];
    let text = '';
    response.setEncoding('utf8');
    for await (const chunk of response) {
      text += chunk;
      const end = text.lastIndexOf('\n\n');
      if (end === -1) continue;
      for (const [, n] of text.slice(0, end).matchAll(/"n":(\d+)/g)) numbers.push(n ?? '');
      text = text.slice(end + 2);
    }
    await flooding;
    expect(numbers).toEqual(Array.from({ length: total }, (_, i) => String(i)));
  });
});

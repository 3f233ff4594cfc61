import { createServer, request } from 'node:http';
import { describe, expect, it, vi } from 'vitest';
import { listen } from '../../../../../test/fixtures/http-server.ts';
import { liveTests } from '../../../testing/live-tests.ts';
import { startLiveUpstream } from '../../../testing/live-upstream.ts';
import { client, eras } from '../../../testing/relay.ts';
import { sessionClient } from '../../../testing/session-client.ts';

const { register, upstreamWith, onEnd } = liveTests();

/** Redirects `/mcp` to `/mcp/` as Starlette does, and passes all other requests on. */
async function slashServer(target: string) {
  const seen: string[] = [];
  const server = createServer((incoming, outgoing) => {
    const { method = '', url = '', headers } = incoming;
    seen.push(`${method} ${url}`);
    if (url === '/mcp') {
      incoming.resume();
      outgoing.writeHead(307, { location: `http://${headers.host}/mcp/`, 'content-length': 0 }).end();
      return;
    }
    const forwarded = request(target, { method, headers, agent: false }, (response) => {
      outgoing.writeHead(response.statusCode ?? 0, response.headers).flushHeaders();
      response.pipe(outgoing);
    });
    forwarded.on('error', () => outgoing.destroy());
    outgoing.on('close', () => forwarded.destroy());
    incoming.pipe(forwarded);
  });
  const port = await listen(server, 0);
  onEnd(async () => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${port}/mcp`, seen };
}

describe('an upstream that redirects to a path with a slash', () => {
  it.each(eras)('is discovered and called in the %s era', async (era) => {
    const upstream = await upstreamWith({}, { eras: [era] });
    const server = await slashServer(upstream.url);
    const caller = await client(era, await register(server.url));
    const { result } = JSON.parse((await caller.call('tools/list')).text);
    expect(result.tools).toHaveLength(2);
    const discovered = server.seen.length;
    const large = JSON.stringify({ name: 'a', arguments: { text: 'x'.repeat(1_000_000) } });
    const { text } = await caller.call('tools/call', large);
    expect(text).toContain('done');
    expect(upstream.count('tools/call')).toBe(1);
    // The target is remembered: later requests are not redirected.
    expect(server.seen.slice(discovered)).toEqual(server.seen.slice(discovered).map(() => 'POST /mcp/'));
  });

  it('gets sessions, notification streams and their ends', async () => {
    const upstream = await startLiveUpstream({ uris: ['file:///a'] });
    onEnd(upstream.close);
    const server = await slashServer(upstream.url);
    const caller = await sessionClient(await register(server.url));
    const stream = caller.listen();
    await stream.head;
    await caller.request('resources/subscribe', '{"uri":"file:///a"}');
    await upstream.streams.next();
    stream.disconnect();
    await caller.end();
    await vi.waitFor(() => expect(upstream.sessions.size).toBe(0));
    expect(server.seen).toEqual(expect.arrayContaining(['GET /mcp/', 'DELETE /mcp/']));
  });
});

import { describe, expect, it, vi } from 'vitest';
import type { UpstreamRequest } from './client.ts';
import { pool, Sent, startUpstream, stopTime, type Upstream } from './pool.fixture.ts';

/** Starts an upstream that redirects these paths, and answers all others with their first line. */
function redirecting(
  targets: Readonly<Record<string, string | ((port: number) => string)>>,
  status: number | ((path: string) => number) = 307,
): Promise<Upstream> {
  const upstream = startUpstream(async (socket, index) => {
    const { port, requests } = await upstream;
    const path = requests[index]?.split(' ')[1] ?? '';
    const to = targets[path];
    const line = `HTTP/1.1 ${typeof status === 'number' ? status : status(path)} Moved`;
    if (to !== undefined) {
      const location = typeof to === 'string' ? to : to(port);
      return socket.write(`${line}\r\n${location}Content-Length: 5\r\n\r\nmoved`);
    }
    return socket.write(`HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: ${path.length}\r\n\r\n${path}`);
  });
  return upstream;
}

const location = (target: string) => `Location: ${target}\r\n`;
const LARGE = 'x'.repeat(3_000_000);

describe('a redirect to the same origin', () => {
  it.each([
    ['relative', location('/mcp/'), '/mcp/'],
    ['relative without a slash', location('other/mcp'), '/other/mcp'],
    ['absolute', (port: number) => location(`http://127.0.0.1:${port}/v2/mcp`), '/v2/mcp'],
    ['without a scheme', (port: number) => location(`//127.0.0.1:${port}/mcp/`), '/mcp/'],
    ['with a query', location('/mcp/?a=1&b=%20'), '/mcp/?a=1&b=%20'],
    ['with a fragment', location('/mcp/#there'), '/mcp/'],
    ['with characters of UTF-8', location('/größe/'), '/gr%C3%B6%C3%9Fe/'],
    ['in two equal lines', location('/mcp/').repeat(2), '/mcp/'],
  ])('is followed if it is %s', async (_which, to, path) => {
    for (const status of [307, 308]) {
      const upstream = await redirecting({ '/mcp': to }, status);
      const sent = await new Sent(pool(upstream)).done;
      // The redirect is no activity: its head is not reported.
      expect(sent.log).toEqual(['dispatched', 'head', 'data', 'end']);
      expect([sent.status, sent.body]).toEqual([200, path]);
    }
  });

  it.each<[string, Partial<UpstreamRequest>]>([
    ['POST', { body: '{"a":1}' }],
    ['POST with text that is not ASCII', { body: '{"a":"grün 😀"}' }],
    ['POST with a large text', { body: LARGE }],
    ['POST with a buffer', { body: Buffer.from(LARGE) }],
    ['POST with a body in parts', { body: [Buffer.from('{"a":'), Buffer.from(LARGE), Buffer.from('}')] }],
    ['GET', { method: 'GET', body: '' }],
    ['DELETE', { method: 'DELETE', body: '' }],
  ])('gets method, headers and body: %s', async (_which, request) => {
    const upstream = await redirecting({ '/mcp': location('/mcp/') });
    const headers = ['Mcp-Session-Id', 's1', 'authorization', 'Bearer x', 'Mcp-Method', 'tools/call'];
    const { error } = await new Sent(pool(upstream), { headers, ...request }).done;
    expect(error).toBeUndefined();
    const [first = '', second = ''] = upstream.requests;
    expect(upstream.requests).toHaveLength(2);
    expect(second === first.replace(' /mcp ', ' /mcp/ ')).toBe(true);
  });

  it('is followed up to 10 times', async () => {
    const hops = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, n) => [n === 0 ? '/mcp' : `/${n}`, location(`/${n + 1}`)]));
    const sent = await new Sent(pool(await redirecting(hops(10)))).done;
    expect(sent.body).toBe('/10');
    const upstream = await redirecting(hops(11));
    const { error } = await new Sent(pool(upstream)).done;
    expect(error?.message).toContain(`/11 (HTTP 307); more than 10 redirects are not followed`);
    expect(upstream.requests).toHaveLength(11);
  });

  it('to itself ends', async () => {
    const { error, log } = await new Sent(pool(await redirecting({ '/mcp': location('/mcp') }))).done;
    expect(error).toMatchObject({ kind: 'redirect', status: 307 });
    expect(log).toEqual(['dispatched', 'error']);
  });

  it('is aborted with its call', async () => {
    const upstream = await startUpstream((socket, index) => {
      if (index === 0) socket.write('HTTP/1.1 307 Moved\r\nLocation: /mcp/\r\nContent-Length: 0\r\n\r\n');
    });
    const sent = new Sent(pool(upstream));
    await upstream.requested(2);
    sent.call.abort();
    await upstream.closed(1);
    expect(sent.log).toEqual(['dispatched']);
  });

  it('counts towards the time for connecting', async () => {
    stopTime();
    const upstream = await startUpstream((socket) => {
      vi.advanceTimersByTime(3_000);
      socket.write('HTTP/1.1 307 Moved\r\nLocation: /mcp/\r\nContent-Length: 0\r\n\r\n');
    });
    const { error } = await new Sent(pool(upstream, { connectTimeoutMs: 5_000 })).done;
    expect(error).toMatchObject({
      kind: 'refused',
      message: `upstream http://127.0.0.1:${upstream.port}/mcp redirected for more than 5 s; register the target address`,
    });
    expect(upstream.requests).toHaveLength(2);
  });
});

describe('the target of a redirect', () => {
  it('is remembered for an hour', async () => {
    stopTime();
    const upstream = await redirecting({ '/mcp': location('/mcp/') });
    const to = pool(upstream);
    const paths = () => upstream.requests.map((request) => request.split(' ')[1]);
    await new Sent(to).done;
    await new Sent(to, { method: 'GET', body: '' }).done;
    vi.advanceTimersByTime(3_599_000);
    await new Sent(to).done;
    expect(paths()).toEqual(['/mcp', '/mcp/', '/mcp/', '/mcp/']);
    vi.advanceTimersByTime(1_000);
    await new Sent(to).done;
    expect(paths().slice(4)).toEqual(['/mcp', '/mcp/']);
  });

  it.each([
    ['it is not found later', 'HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n'],
    ['it redirects back', 'HTTP/1.1 308 Moved\r\nLocation: /mcp\r\nContent-Length: 0\r\n\r\n'],
  ])('is replaced when %s', async (_when, later) => {
    const ok = 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n';
    const moved = 'HTTP/1.1 307 Moved\r\nLocation: /mcp/\r\nContent-Length: 0\r\n\r\n';
    const responses = [moved, ok, later, ok, ok];
    const upstream = await startUpstream((socket, index) => socket.write(responses[index] ?? ok));
    const to = pool(upstream);
    for (let n = 0; n < 3; n++) await new Sent(to).done;
    const paths = upstream.requests.map((request) => request.split(' ')[1]);
    expect(paths).toEqual(['/mcp', '/mcp/', '/mcp/', '/mcp', ...paths.slice(4)]);
    expect(paths.slice(4).every((path) => path === '/mcp')).toBe(true);
  });

  it.each([
    ['an error', 'HTTP/1.1 503 Unavailable\r\nContent-Length: 0\r\n\r\n'],
    ['a page', 'HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 0\r\n\r\n'],
  ])('is not remembered if it is %s', async (_what, answer) => {
    const upstream = await startUpstream((socket, index) =>
      socket.write(
        index % 2 === 0 ? 'HTTP/1.1 307 Moved\r\nLocation: /maintenance\r\nContent-Length: 0\r\n\r\n' : answer,
      ),
    );
    const to = pool(upstream);
    for (let n = 0; n < 2; n++) await new Sent(to).done;
    expect(upstream.requests.map((request) => request.split(' ')[1])).toEqual([
      '/mcp',
      '/maintenance',
      '/mcp',
      '/maintenance',
    ]);
  });
});

describe('a redirect that is not followed', () => {
  const keeps = 'does not keep the method: register the target address, or have the server send 307 or 308';
  const origin = 'another origin is not followed: register the target address';
  it.each([
    ['301', 301, location('/mcp/'), (at: string) => `to ${at}/mcp/ (HTTP 301); HTTP 301 ${keeps}`],
    ['302', 302, location('/mcp/'), (at: string) => `to ${at}/mcp/ (HTTP 302); HTTP 302 ${keeps}`],
    ['303', 303, location('/mcp/'), (at: string) => `to ${at}/mcp/ (HTTP 303); HTTP 303 ${keeps}`],
    [
      'another host',
      307,
      location('http://b.example/mcp?token=s3cret#s3cret'),
      () => `to http://b.example/mcp (HTTP 307); ${origin}`,
    ],
    [
      'another host by 301',
      301,
      location('https://b.example/x/mcp'),
      () => `to https://b.example/x/mcp (HTTP 301); ${origin}`,
    ],
    [
      'another scheme',
      308,
      (port: number) => location(`https://127.0.0.1:${port}/mcp`),
      (at: string) => `to ${at.replace('http:', 'https:')}/mcp (HTTP 308); ${origin}`,
    ],
    ['another port', 308, location('http://127.0.0.1:1/mcp'), () => `to http://127.0.0.1:1/mcp (HTTP 308); ${origin}`],
    [
      'a user name and password',
      307,
      (port: number) => location(`http://user:s3cret@127.0.0.1:${port}/mcp/`),
      (at: string) => `to ${at}/mcp/ (HTTP 307); a target with a user name or password is not followed`,
    ],
    ['no location', 307, '', () => 'without a valid location (HTTP 307); have the server send a valid Location'],
    ['two locations', 307, location('/a') + location('/b'), () => 'without a valid location (HTTP 307)'],
    ['an invalid location', 307, location('http://[x'), () => 'without a valid location (HTTP 307)'],
  ])('names the whole target and what to do: %s', async (_which, status, to, what) => {
    const upstream = await redirecting({ '/mcp': to }, status);
    const { error, log } = await new Sent(pool(upstream)).done;
    const at = `http://127.0.0.1:${upstream.port}`;
    expect(error).toMatchObject({ kind: 'redirect', status });
    expect(error?.message).toContain(`upstream ${at}/mcp redirects ${what(at)}`);
    expect(error?.message).not.toContain('s3cret');
    expect(upstream.requests).toHaveLength(1);
    expect(log).toEqual(['dispatched', 'error']);
  });

  it('has a body that is streamed', async () => {
    const upstream = await redirecting({ '/mcp': location('/mcp/') });
    const body = {
      length: 2,
      start: (sink: { write(chunk: Buffer): boolean }) => void sink.write(Buffer.from('{}')),
      resume() {},
      stop() {},
    };
    const { error } = await new Sent(pool(upstream), { body }).done;
    expect(error?.message).toContain('/mcp/ (HTTP 307); its body cannot be sent again');
  });
});

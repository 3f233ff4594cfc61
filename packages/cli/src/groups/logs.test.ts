import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { expect, it, onTestFinished } from 'vitest';
import { run } from '../run.ts';
import { scriptedTerminal } from '../testing/scripted-terminal.ts';

const LINE = { ts: '2026-01-02T03:04:05.678Z', level: 'warn', target: 'service::forward', msg: 'upstream\u202e', n: 1 };

async function management(listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  return `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
}

const CASES: readonly (readonly [string, RegExp])[] = [
  ['table', /^\d\d:\d\d:\d\d WARN {2}forward {3}upstream\\u202e n=1\n$/],
  ['json', /^\[\n {2}\{\n {4}"ts"/],
  ['yaml', /^- ts: 2026-01-02T03:04:05\.678Z\n/],
];

it.each(CASES)('lines are printed as %s', async (format, expected) => {
  const urls: string[] = [];
  const host = await management(({ url = '' }, response) => {
    urls.push(url);
    response.setHeader('content-type', 'application/json').end(JSON.stringify({ data: [LINE], error: null }));
  });
  const terminal = scriptedTerminal();
  expect(
    await run(['logs', '--level', 'warn', '--limit', '5', '-o', format, '--no-auth', '--host', host], terminal),
  ).toBe(0);
  expect(terminal.out()).toMatch(expected);
  expect(urls).toEqual(['/api/v1/logs?level=warn&limit=5']);
});

it('new lines are printed as they arrive, after a reconnection from the last one on', async () => {
  const ids: (string | undefined)[] = [];
  const host = await management(({ headers }, response) => {
    ids.push(headers['last-event-id']?.toString());
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(
      `id: x.${ids.length}\ndata: ${JSON.stringify({ ...LINE, n: ids.length })}\n\nevent: missed\ndata: {"count":5}\n\n`,
    );
    if (ids.length === 1) response.end();
  });
  const terminal = scriptedTerminal();
  const ended = run(['logs', '--follow', '-o', 'json', '--no-auth', '--host', host], terminal);
  await expect.poll(() => terminal.out().split('\n').length, { timeout: 10_000 }).toBe(3);
  terminal.interrupt();
  expect(await ended).toBe(130);
  expect(ids).toEqual([undefined, 'x.1']);
  expect(
    terminal
      .out()
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line).n),
  ).toEqual([1, 2]);
  expect(terminal.err()).toContain('5 lines were missed');
});

it('open prints the URL of the console of a service that runs', async () => {
  const host = await management((_request, response) => {
    response.setHeader('content-type', 'application/json').end('{"data":{"status":"ok"},"error":null}');
  });
  const terminal = scriptedTerminal();
  expect(await run(['open', '--no-auth', '--host', host], terminal)).toBe(0);
  expect(terminal.out()).toBe(`${host}/admin/\n`);
  const down = scriptedTerminal();
  expect(await run(['open', '--no-auth', '--host', 'http://127.0.0.1:2'], down)).toBe(1);
  expect(down.err()).toContain('connection refused');
});

it.each([
  [1, 0, /: 1 tool, 0 resources, 0 prompts\n$/],
  [Number.POSITIVE_INFINITY, 1, /: not available yet: refused\n$/],
])(
  'forwards add --wait returns when the forward is available, after %s more requests: exit code %i',
  async (after, code, out) => {
    let polls = 0;
    const host = await management(({ method, url = '' }, response) => {
      const isForward = url.startsWith('/api/v1/forwards');
      const available = method === 'GET' && ++polls >= after;
      const counts = { tools_discovered: available ? 1 : 0, resources_discovered: 0, prompts_discovered: 0 };
      const forward = { name: 'a', address: 'http://a/mcp', namespace: 'default', labels: {}, available, ...counts };
      const data = isForward ? { ...forward, ...(!available && { statusMessage: 'refused' }) } : [];
      response.writeHead(method === 'POST' ? 201 : 200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ data, error: null }));
    });
    const terminal = scriptedTerminal();
    const argv = ['forwards', 'add', 'a', 'http://a/mcp', '--wait', '1', '--no-auth', '--host', host];
    expect(await run(argv, terminal)).toBe(code);
    expect(terminal.out()).toMatch(out);
  },
);

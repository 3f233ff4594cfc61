import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { createServer as createTcpServer, type Server as TcpServer } from 'node:net';
import { pipeline } from 'node:stream/promises';
import { setImmediate } from 'node:timers/promises';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { run } from '../run.ts';
import { scriptedTerminal } from '../testing/scripted-terminal.ts';

// What stands before the service, or in its place, and answers in its own way.

const servers: { close: () => void }[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

async function listening(server: TcpServer): Promise<string> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  servers.push(server);
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no TCP address');
  return `http://127.0.0.1:${address.port}`;
}

const answering = (listener: RequestListener): Promise<string> => listening(createServer(listener));

async function failure(argv: readonly string[]): Promise<string> {
  const terminal = scriptedTerminal();
  expect(await run(argv, terminal)).toBe(1);
  expect(terminal.out()).toBe('');
  return terminal.err();
}

const list = (host: string, ...more: string[]) => failure(['tools', 'list', '--no-auth', '--host', host, ...more]);

describe('a command that fails says why in a line', () => {
  it('when nobody listens', async () => {
    const host = await answering(() => undefined);
    for (const server of servers.splice(0)) server.close();
    expect(await list(host)).toBe(`sluice: connection refused: is the service running at ${host}?\n`);
  });

  it('when the host is unknown', async () => {
    expect(await list('http://no-such-host.invalid:8080')).toBe('sluice: unknown host: no-such-host.invalid\n');
  });

  it('when the connection breaks off', async () => {
    const host = await listening(createTcpServer((socket) => socket.destroy()));
    expect(await list(host)).toBe(`sluice: the connection to ${host} was closed before it had answered\n`);
  });

  it('when the other side speaks no HTTP, or no TLS', async () => {
    const host = await listening(createTcpServer((socket) => socket.end('+OK POP3 ready\r\n')));
    expect(await list(host)).toBe(`sluice: no HTTP at ${host}: does it speak https?\n`);
    const secure = host.replace('http:', 'https:');
    expect(await list(secure)).toBe(`sluice: no TLS at ${secure}: does it speak http?\n`);
  });

  it('when a proxy does not accept the token, which is not repeated', async () => {
    const host = await answering((request, response) => {
      response
        .writeHead(request.headers.authorization === 'Bearer secret-token' ? 401 : 500)
        .end('<html>Sign in</html>');
    });
    const said = await failure(['tools', 'list', '--token', 'secret-token', '--host', host, '--verbose']);
    expect(said).toMatch(/^GET \/api\/v1\/tools 401 \d+ ms\n/);
    expect(said).toContain(`sluice: not accepted by ${host} (401): sluice auth login --host ${host}\n`);
    expect(said).not.toContain('secret-token');
  });

  it('when a proxy leads to its log-in page, without the state that the page carries', async () => {
    const host = await answering((_request, response) => {
      response.writeHead(302, { location: 'https://login.example.com/auth?state=sealed' }).end();
    });
    expect(await list(host)).toBe(
      `sluice: ${host} needs authentication (302 to https://login.example.com/auth): sluice auth login --host ${host}\n`,
    );
  });

  it('when the address has moved', async () => {
    const host = await answering((_request, response) => {
      response.writeHead(308, { location: 'https://sluice.example.com/api/v1/tools' }).end();
    });
    expect(await list(host)).toBe(
      `sluice: ${host} has moved to https://sluice.example.com/api/v1/tools: give that as --host\n`,
    );
  });

  it('when a page of something else comes, with a good status or a bad one', async () => {
    const good = await answering((_request, response) => {
      response.setHeader('content-type', 'text/html').end('<html></html>');
    });
    expect(await list(good)).toMatch(/^sluice: what answers at http:\S+ is not the management API: .*\n$/);
    const bad = await answering((_request, response) => {
      response.writeHead(502, { 'content-type': 'text/html' }).end('<html>Bad gateway</html>');
    });
    expect(await list(bad)).toBe(`sluice: ${bad} answered 502: a page that is not of the management API\n`);
  });

  it('when a failure is no envelope: its text, harmless, in one line', async () => {
    const host = await answering((_request, response) => {
      response.writeHead(503, { 'content-type': 'text/plain' }).end('upstream\nis \u001b[31mdown');
    });
    expect(await list(host)).toBe(`sluice: ${host} answered 503: upstream is \\u001b[31mdown\n`);
    const json = await answering((_request, response) => {
      response.writeHead(500, { 'content-type': 'application/json' }).end('{"message":"no"}');
    });
    expect(await list(json)).toBe(`sluice: ${json} answered 500: {"message":"no"}\n`);
  });

  it('when the service refuses: its message, the status, and the details below', async () => {
    const answers: Record<string, object> = {
      GET: { code: 'CONFLICT', message: 'ambiguous name: echo', details: { namespaces: ['a', 'b'] } },
      DELETE: { code: 'BAD_REQUEST', message: 'invalid', details: [{ path: 'labels.x', message: 'expected string' }] },
    };
    const host = await answering(({ method = '' }, response) => {
      response.writeHead(method === 'GET' ? 409 : 400, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ data: null, error: answers[method] }));
    });
    const common = ['echo', '--no-auth', '--host', host];
    expect(await failure(['tools', 'show', ...common])).toBe(
      'sluice: ambiguous name: echo (409 CONFLICT)\n  namespaces: a, b\n',
    );
    expect(await failure(['tools', 'remove', ...common])).toBe(
      'sluice: invalid (400 BAD_REQUEST)\n  labels.x: expected string\n',
    );
  });
});

describe('what does not end is ended', () => {
  afterEach(() => {
    vi.useRealTimers();
  });

  it.each([
    ['before an answer', false],
    ['in the middle of one', true],
  ])('a silence %s', async (_when, begun) => {
    const asked = Promise.withResolvers<void>();
    const host = await answering((_request, response) => {
      if (begun) response.writeHead(200, { 'content-type': 'application/json' }).write('{"data":');
      asked.resolve();
    });
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const said = list(host);
    await asked.promise;
    let ended = false;
    void said.finally(() => {
      ended = true;
    });
    // The beginning of an answer may still be on its way.
    for (let minutes = 0; !ended && minutes < 1000; minutes += 1) {
      vi.advanceTimersByTime(60_000);
      await setImmediate();
    }
    expect(await said).toBe(`sluice: no answer from ${host} for 60 s\n`);
  });

  it('a flood', async () => {
    const host = await answering(async (_request, response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      const piece = Buffer.alloc(2 ** 20, 'x');
      await pipeline(
        (function* () {
          for (;;) yield piece;
        })(),
        response,
      ).catch(() => undefined);
    });
    expect(await list(host)).toBe(`sluice: the answer of ${host} is larger than 256 MiB\n`);
  });
});

describe('Ctrl-C', () => {
  it('ends a request under way: nothing more is said, exit code 130', async () => {
    const asked = Promise.withResolvers<void>();
    const host = await answering(() => asked.resolve());
    const terminal = scriptedTerminal();
    const ended = run(['forwards', 'refresh', 'crm', '--no-auth', '--host', host], terminal);
    await asked.promise;
    terminal.interrupt();
    expect(await ended).toBe(130);
    expect(terminal.out() + terminal.err()).toBe('');
  });
});

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
    // A port that the system gives to nobody.
    const host = 'http://127.0.0.1:2';
    expect(await list(host)).toBe(`sluice: connection refused by ${host}: check that the service is running\n`);
  });

  it('when the port is one that no HTTP client connects to', async () => {
    expect(await list('http://127.0.0.1:6000')).toBe(
      'sluice: http://127.0.0.1:6000 is unreachable: HTTP clients block port 6000; use another port\n',
    );
  });

  it('when the host is unknown', async () => {
    expect(await list('http://no-such-host.invalid:8080')).toBe('sluice: unknown host: no-such-host.invalid\n');
  });

  it('when the connection breaks off', async () => {
    const host = await listening(createTcpServer((socket) => socket.destroy()));
    expect(await list(host)).toBe(`sluice: the connection to ${host} was closed before the response\n`);
  });

  it('when the other side speaks no HTTP, or no TLS', async () => {
    const host = await listening(createTcpServer((socket) => socket.end('+OK POP3 ready\r\n')));
    expect(await list(host)).toBe(`sluice: no HTTP at ${host}: use https://\n`);
    const secure = host.replace('http:', 'https:');
    expect(await list(secure)).toBe(`sluice: no TLS at ${secure}: use http://\n`);
  });

  it('when a proxy does not accept the token, which is not repeated', async () => {
    const host = await answering((request, response) => {
      response
        .writeHead(request.headers.authorization === 'Bearer secret-token' ? 401 : 500)
        .end('<html>Sign in</html>');
    });
    const said = await failure(['tools', 'list', '--token', 'secret-token', '--host', host, '--verbose']);
    expect(said).toMatch(/^GET \/api\/v1\/tools 401 \d+ ms\n/);
    expect(said).toContain(`sluice: rejected by ${host} (401): run "sluice auth login --host ${host}"\n`);
    expect(said).not.toContain('secret-token');
  });

  it('when a token of the environment is not accepted; an option wins over it', async () => {
    const host = await answering(({ headers }, response) => {
      response.writeHead(headers.authorization === 'Bearer of-env' ? 401 : headers.authorization ? 403 : 500).end();
    });
    const said = async (...argv: string[]) => {
      const terminal = scriptedTerminal({ env: { SLUICE_HOST: host, SLUICE_TOKEN: 'of-env' } });
      await run(['tools', 'list', ...argv], terminal);
      return terminal.err();
    };
    expect(await said()).toContain('(401)');
    expect(await said('--token', 'other')).toContain('(403)');
    expect(await said('--no-auth')).toContain('returned 500');
  });

  it('when a proxy leads to its log-in page, without the state that the page carries', async () => {
    const host = await answering((_request, response) => {
      response.writeHead(302, { location: 'https://login.example.com/auth?state=sealed' }).end();
    });
    expect(await list(host)).toBe(
      `sluice: ${host} requires authentication (302 to https://login.example.com/auth): run "sluice auth login --host ${host}"\n`,
    );
  });

  it('when the address has moved', async () => {
    const host = await answering((_request, response) => {
      response.writeHead(308, { location: 'https://sluice.example.com/api/v1/tools' }).end();
    });
    expect(await list(host)).toBe(
      `sluice: ${host} has moved to https://sluice.example.com/api/v1/tools: use that as --host\n`,
    );
  });

  it('when it is the MCP port that answers', async () => {
    const host = await answering((_request, response) => {
      response.writeHead(404, { 'content-type': 'application/json' });
      response.end('{"jsonrpc":"2.0","error":{"code":-32600,"message":"not found"},"id":null}');
    });
    expect(await list(host)).toBe(
      `sluice: ${host} is the MCP listener; the management API is on another port (8080 by default)\n`,
    );
  });

  it('when a page of something else comes, with a good status or a bad one', async () => {
    const good = await answering((_request, response) => {
      response.setHeader('content-type', 'text/html').end('<html></html>');
    });
    expect(await list(good)).toMatch(/^sluice: http:\S+ is not the management API: .*\n$/);
    const bad = await answering((_request, response) => {
      response.writeHead(502, { 'content-type': 'text/html' }).end('<html>Bad gateway</html>');
    });
    expect(await list(bad)).toBe(`sluice: ${bad} returned 502: a page that is not from the management API\n`);
  });

  it('when a failure is no envelope: its text, harmless, in one line', async () => {
    const host = await answering((_request, response) => {
      response.writeHead(503, { 'content-type': 'text/plain' }).end('upstream\nis \u001b[31mdown');
    });
    expect(await list(host)).toBe(`sluice: ${host} returned 503: upstream is \\u001b[31mdown\n`);
    const json = await answering((_request, response) => {
      response.writeHead(500, { 'content-type': 'application/json' }).end('{"message":"no"}');
    });
    expect(await list(json)).toBe(`sluice: ${json} returned 500: {"message":"no"}\n`);
  });

  it('in words of the command line where the service speaks of queries', async () => {
    const host = await answering(({ url = '' }, response) => {
      const [, query = ''] = /e=(.*)$/.exec(url) ?? [];
      response.writeHead(409, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ data: null, error: { code: 'CONFLICT', message: `choose with ?${query}=` } }));
    });
    const show = (n: string) => failure(['tools', 'show', 'a', '-N', n, '--no-auth', '--host', host]);
    expect(await show('namespace')).toContain('choose with -N (409');
    expect(await show('uri')).toContain('choose with --uri (409');
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
    expect(await failure(['forwards', 'remove', ...common])).toBe(
      'sluice: invalid (400 BAD_REQUEST)\n  labels.x: expected string\n',
    );
  });
});

describe('an answer that is not of the API', () => {
  const answered = async (status: number, body: string, ...argv: readonly string[]) => {
    const host = await answering((_request, response) => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(body);
    });
    const said = await failure([...argv, '--no-auth', '--host', host]);
    const [first, ...notes] = said.split('\n');
    expect(first).toBe(`sluice: ${host} is not the management API: check the address and whether you are logged in`);
    return notes;
  };

  it.each([
    [200, '{"data":{},"error":null}', ['tools', 'remove', 'echo']],
    [200, '{"data":[{}],"error":null}', ['tools', 'list']],
    [200, '{"ok":true}', ['namespaces', 'show', 'a']],
    [200, 'null', ['health']],
    [200, '{', ['health']],
    [201, '{"data":{"name":7},"error":null}', ['namespaces', 'create', 'a']],
  ])('is no success: %i %s', async (status, body, argv) => {
    expect(await answered(status, body, ...argv)).not.toEqual(['']);
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
    const terminal = scriptedTerminal();
    const said = run(['tools', 'list', '--no-auth', '--verbose', '--host', host], terminal).then(terminal.err);
    await asked.promise;
    while (begun && !terminal.err().includes(' 200 ')) await setImmediate();
    let ended = false;
    void said.finally(() => {
      ended = true;
    });
    for (let minutes = 0; !ended && minutes < 1000; minutes += 1) {
      vi.advanceTimersByTime(60_000);
      await setImmediate();
    }
    expect(await said).toMatch(
      new RegExp(`^GET /api/v1/tools (?:200|failed) \\d+ ms\nsluice: no response from ${host} for 60 s\n$`),
    );
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
    expect(await list(host)).toBe(`sluice: response from ${host} is larger than 256 MiB\n`);
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

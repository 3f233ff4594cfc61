import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { createServer as createTcpServer, type Server as TcpServer } from 'node:net';
import { pipeline } from 'node:stream/promises';
import { setImmediate } from 'node:timers/promises';
import { createServer as createSecureServer } from 'node:tls';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { localhostCertificate } from '../../../server/src/http/client/certificate.fixture.ts';
import { run } from '../run.ts';
import { scriptedTerminal } from '../testing/scripted-terminal.ts';

// Proxies in front of the service, and other servers in its place.

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

const respondingWith = (listener: RequestListener): Promise<string> => listening(createServer(listener));

async function failure(argv: readonly string[]): Promise<string> {
  const terminal = scriptedTerminal();
  expect(await run(argv, terminal)).toBe(1);
  expect(terminal.out()).toBe('');
  return terminal.err();
}

const list = (host: string, ...more: string[]) => failure(['tools', 'list', '--no-auth', '--host', host, ...more]);

describe('a failed command reports in one line', () => {
  it('an unreachable service', async () => {
    // A port that the system never assigns.
    const host = 'http://127.0.0.1:2';
    expect(await list(host)).toBe(`sluice: connection refused by ${host}: check that the service is running\n`);
  });

  it('a port that HTTP clients block', async () => {
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

  it('a peer without HTTP or TLS', async () => {
    const host = await listening(createTcpServer((socket) => socket.end('+OK POP3 ready\r\n')));
    expect(await list(host)).toBe(`sluice: no HTTP at ${host}: another kind of server listens there\n`);
    const secure = host.replace('http:', 'https:');
    expect(await list(secure)).toBe(`sluice: no TLS at ${secure}: use http://\n`);
  });

  it('a server with TLS that gets plain HTTP', async () => {
    const host = await listening(createSecureServer(localhostCertificate));
    const secure = host.replace('http:', 'https:');
    expect(await list(host)).toBe(`sluice: ${host} requires TLS: use ${secure}\n`);
    expect(await failure(['mcp', 'tool', 'list', '--uri', `${host}/default/mcp`])).toBe(
      `sluice: ${host} requires TLS: use ${secure}\n`,
    );
    const proxy = await respondingWith((_request, response) => {
      const body = '<h1>400 Bad Request</h1>The plain HTTP request was sent to HTTPS port';
      response.writeHead(400, { 'content-type': 'text/html' }).end(body);
    });
    expect(await list(proxy)).toBe(`sluice: ${proxy} requires TLS: use ${proxy.replace('http:', 'https:')}\n`);
  });

  it('a token that a proxy rejects, without repeating it', async () => {
    const host = await respondingWith((request, response) => {
      response
        .writeHead(request.headers.authorization === 'Bearer secret-token' ? 401 : 500)
        .end('<html>Sign in</html>');
    });
    const output = await failure(['tools', 'list', '--token', 'secret-token', '--host', host, '--verbose']);
    expect(output).toMatch(/^GET \/api\/v1\/tools 401 \d+ ms\n/);
    expect(output).toContain(
      `sluice: ${host} requires authentication, or rejected the credentials (401): run "sluice auth login --host ${host}"\n`,
    );
    expect(output).not.toContain('secret-token');
  });

  it('when a token of the environment is not accepted; an option wins over it', async () => {
    const host = await respondingWith(({ headers }, response) => {
      response.writeHead(headers.authorization === 'Bearer of-env' ? 401 : headers.authorization ? 403 : 500).end();
    });
    const output = async (...argv: string[]) => {
      const terminal = scriptedTerminal({ env: { SLUICE_HOST: host, SLUICE_TOKEN: 'of-env' } });
      await run(['tools', 'list', ...argv], terminal);
      return terminal.err();
    };
    expect(await output()).toContain('(401)');
    expect(await output('--token', 'other')).toContain('(403)');
    expect(await output('--no-auth')).toContain('returned 500');
  });

  it('when a proxy redirects to its login page, without the state parameter', async () => {
    const host = await respondingWith((_request, response) => {
      response.writeHead(302, { location: 'https://login.example.com/auth?state=sealed' }).end();
    });
    expect(await list(host)).toBe(
      `sluice: ${host} requires authentication (302 to https://login.example.com/auth): run "sluice auth login --host ${host}"\n`,
    );
  });

  it('when the address redirects', async () => {
    const host = await respondingWith((_request, response) => {
      response.writeHead(308, { location: 'https://sluice.example.com/api/v1/tools' }).end();
    });
    expect(await list(host)).toBe(
      `sluice: ${host} has moved to https://sluice.example.com/api/v1/tools: use that as --host\n`,
    );
  });

  it('that the MCP port responds', async () => {
    const host = await respondingWith((_request, response) => {
      response.writeHead(404, { 'content-type': 'application/json' });
      response.end('{"jsonrpc":"2.0","error":{"code":-32600,"message":"not found"},"id":null}');
    });
    expect(await list(host)).toBe(
      `sluice: ${host} is the MCP listener; the management API is on another port (8080 by default)\n`,
    );
  });

  it('an unrelated page, with a success status or an error', async () => {
    const healthy = await respondingWith((_request, response) => {
      response.setHeader('content-type', 'text/html').end('<html></html>');
    });
    const note = '  check the address, whose port is 8080 by default, and whether you are logged in\n';
    expect(await list(healthy)).toBe(
      `sluice: ${healthy} is not the management API but another web server (200, text/html)\n${note}`,
    );
    const other = await respondingWith((_request, response) => {
      response.writeHead(404, { 'content-type': 'text/html; charset=utf-8', server: 'web\u009b' }).end('<html></html>');
    });
    expect(await list(other)).toBe(
      `sluice: ${other} is not the management API but another web server (404, text/html, web\\u009b)\n${note}`,
    );
    const api = await respondingWith((_request, response) => {
      response.writeHead(404, { 'content-type': 'application/json' }).end('{"detail":"Not Found"}');
    });
    expect(await list(api)).toBe(
      `sluice: ${api} is not the management API but another web server (404): {"detail":"Not Found"}\n`,
    );
    const failing = await respondingWith((_request, response) => {
      response.writeHead(502, { 'content-type': 'text/html' }).end('<html>Bad gateway</html>');
    });
    expect(await list(failing)).toBe(`sluice: ${failing} returned 502: a page that is not from the management API\n`);
  });

  it('when an error has no envelope: its sanitized text in one line', async () => {
    const host = await respondingWith((_request, response) => {
      response.writeHead(503, { 'content-type': 'text/plain' }).end('upstream\nis \u001b[31mdown');
    });
    expect(await list(host)).toBe(`sluice: ${host} returned 503: upstream is \\u001b[31mdown\n`);
    const json = await respondingWith((_request, response) => {
      response.writeHead(500, { 'content-type': 'application/json' }).end('{"message":"no"}');
    });
    expect(await list(json)).toBe(`sluice: ${json} returned 500: {"message":"no"}\n`);
  });

  it('a query parameter in terms of command-line options', async () => {
    const host = await respondingWith(({ url = '' }, response) => {
      const [, query = ''] = /e=(.*)$/.exec(url) ?? [];
      response.writeHead(409, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ data: null, error: { code: 'CONFLICT', message: `choose with ?${query}=` } }));
    });
    const show = (n: string) => failure(['tools', 'show', 'a', '-N', n, '--no-auth', '--host', host]);
    expect(await show('namespace')).toContain('choose with -N (409');
    expect(await show('uri')).toContain('choose with --uri (409');
  });

  it('a rejection by the service: its message, the status, and the details below', async () => {
    const responses: Record<string, object> = {
      GET: { code: 'CONFLICT', message: 'ambiguous name: echo', details: { namespaces: ['a', 'b'] } },
      DELETE: { code: 'BAD_REQUEST', message: 'invalid', details: [{ path: 'labels.x', message: 'expected string' }] },
    };
    const host = await respondingWith(({ method = '' }, response) => {
      response.writeHead(method === 'GET' ? 409 : 400, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ data: null, error: responses[method] }));
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

describe('a response that is not of the API', () => {
  const responded = async (status: number, body: string, ...argv: readonly string[]) => {
    const host = await respondingWith((_request, response) => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(body);
    });
    const output = await failure([...argv, '--no-auth', '--host', host]);
    const [first, ...notes] = output.split('\n');
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
  ])('is a failure: %i %s', async (status, body, argv) => {
    expect(await responded(status, body, ...argv)).not.toEqual(['']);
  });
});

describe('endless output of the peer is aborted', () => {
  afterEach(() => {
    vi.useRealTimers();
  });

  it.each([
    ['before an answer', false],
    ['in the middle of one', true],
  ])('an idle connection %s', async (_when, begun) => {
    const requested = Promise.withResolvers<void>();
    const host = await respondingWith((_request, response) => {
      if (begun) response.writeHead(200, { 'content-type': 'application/json' }).write('{"data":');
      requested.resolve();
    });
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const terminal = scriptedTerminal();
    const output = run(['tools', 'list', '--no-auth', '--verbose', '--host', host], terminal).then(terminal.err);
    await requested.promise;
    while (begun && !terminal.err().includes(' 200 ')) await setImmediate();
    let ended = false;
    void output.finally(() => {
      ended = true;
    });
    for (let minutes = 0; !ended && minutes < 1000; minutes += 1) {
      vi.advanceTimersByTime(60_000);
      await setImmediate();
    }
    expect(await output).toMatch(
      new RegExp(`^GET /api/v1/tools (?:200|failed) \\d+ ms\nsluice: no response from ${host} for 60 s\n$`),
    );
  });

  it('an oversized response', async () => {
    const host = await respondingWith(async (_request, response) => {
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
  it('cancels a request in flight without further output, exit code 130', async () => {
    const requested = Promise.withResolvers<void>();
    const host = await respondingWith(() => requested.resolve());
    const terminal = scriptedTerminal();
    const ended = run(['forwards', 'refresh', 'crm', '--no-auth', '--host', host], terminal);
    await requested.promise;
    terminal.interrupt();
    expect(await ended).toBe(130);
    expect(terminal.out() + terminal.err()).toBe('');
  });
});

import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { startLiveUpstream } from '../packages/server/testing/live-upstream.ts';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';
import { listen } from './fixtures/http-server.ts';
import { legacyClient, modernClient, type RawResponse, reply, send } from './fixtures/raw-client.ts';
import { textResultText, toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { type RawUpstream, type RawUpstreamOptions, startRawUpstream } from './fixtures/raw-upstream.ts';

const TOKEN = 'eyJ0b2tlbiI6/MS4y+';
const BEARER = `Bearer ${TOKEN}`;
const AUTHORIZATION = { Authorization: `Bearer ${env('SERVICE_SECRET_TOKEN')}` };

let folder: string;
let service: TestService;
const upstreams: { close(): Promise<void> }[] = [];
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-secrets-'));
  const secrets = join(folder, 'secrets');
  await mkdir(join(secrets, 'folder'), { recursive: true });
  await writeFile(join(folder, 'outside'), 'outside-value');
  await writeFile(join(secrets, 'token'), `${TOKEN}\n`);
  await symlink('token', join(secrets, 'link'));
  await symlink('../outside', join(secrets, 'link-out'));
  await symlink('/proc/self/environ', join(secrets, 'environ'));
  await writeFile(join(secrets, 'large'), 'x'.repeat(1024 * 1024));
  await writeFile(join(secrets, 'lines'), 'a-secret\nanother\n');
  await writeFile(join(secrets, 'empty'), '\n');
  await promisify(execFile)('mkfifo', [join(secrets, 'fifo')]);
  service = await startTestService({
    SERVICE_SECRETS_PATH: secrets,
    SERVICE_SECRET_TOKEN: TOKEN,
    SERVICE_SECRET_BOUND: 'bound-value',
    SERVICE_SECRET_ORIGINS: 'SERVICE_SECRET_BOUND=https://crm.example.com,lines=http://127.0.0.1:1',
    SERVICE_FORWARD_HEADERS: 'authorization,x-user',
    RUST_LOG: 'debug',
  });
});
afterAll(async () => {
  await service.stop(0);
  await Promise.all(upstreams.map((upstream) => upstream.close()));
  await rm(folder, { recursive: true });
});

let name: string;
let number = 0;
beforeEach(() => {
  name = `forward-${++number}`;
});

async function startUpstream(options: RawUpstreamOptions = {}): Promise<RawUpstream> {
  const upstream = await startRawUpstream({
    ...options,
    scripts: { 'tools/list': toolList(toolText('echo')), ...options.scripts },
  });
  upstreams.push(upstream);
  return upstream;
}

/** The members of a forward in a response of the management API, or of its error. */
async function manage(method: string, path = '', body?: object): Promise<Readonly<Record<string, unknown>>> {
  const response = await fetch(`${service.management}/api/v1/forwards${path}`, {
    method,
    headers: { connection: 'close' },
    ...(body && { body: JSON.stringify(body) }),
  });
  const { data, error } = JSON.parse(await response.text());
  return { status: response.status, ...data, ...error };
}

function env(variable: string): string {
  return `$\{env:${variable}}`;
}

function file(path: string): string {
  return `$\{file:${path}}`;
}

/** Registers a forward in a namespace of its name. */
function register(address: string, headers: object): Promise<Readonly<Record<string, unknown>>> {
  return manage('POST', '', { name, address, namespace: name, headers });
}

function callEcho(headers: Readonly<Record<string, string>> = {}): Promise<RawResponse> {
  return modernClient(service.url(name)).call('tools/call', '{"name":"echo"}', headers);
}

describe('headers of a forward', () => {
  it('are sent with every request of both eras and win over those of clients', async () => {
    const capabilities = '{"tools":{"listChanged":true},"resources":{"subscribe":true}}';
    const upstream = await startUpstream({
      scripts: {
        initialize: `{"protocolVersion":"2025-11-25","capabilities":${capabilities},"serverInfo":{"name":"s","version":"1"}}`,
        'tools/call': textResultText('done'),
      },
      eras: ['legacy'],
    });
    const headers = { 'user-agent': 'crm', 'X-Key': file('link') };
    expect(await register(upstream.url, { ...AUTHORIZATION, ...headers })).toMatchObject({ available: true });
    const client = await legacyClient(service.url(name));
    const own = { authorization: 'Bearer of-the-client', 'x-user': 'ann' };
    expect(reply(await client.call('tools/call', '{"name":"echo"}', own))).toContain('done');
    expect(reply(await callEcho(own))).toContain('done');
    await send(service.url(name), 'DELETE', client.headers);
    await expect.poll(() => upstream.sessions()).toBe(2);
    const kinds = new Set(upstream.seen.map(({ http, method }) => method ?? http));
    expect([...kinds].sort()).toEqual(
      expect.arrayContaining(['DELETE', 'GET', 'initialize', 'notifications/initialized', 'tools/call', 'tools/list']),
    );
    for (const seen of upstream.seen) {
      expect(seen.headers).toMatchObject({ authorization: BEARER, 'user-agent': 'crm', 'x-key': TOKEN });
    }
    const calls = upstream.seen.filter(({ method }) => method === 'tools/call');
    expect(calls.map(({ headers: sent }) => sent['x-user'])).toEqual(['ann', 'ann']);
  });

  it('are returned as written and never with their values', async () => {
    const upstream = await startUpstream();
    expect(await register(upstream.url, AUTHORIZATION)).toMatchObject({ status: 201, headers: AUTHORIZATION });
    expect(await manage('GET', `/${name}`)).toMatchObject({ headers: AUTHORIZATION });
    const pages = ['forwards', 'tools', 'metrics', 'tool-calls'].map((path) =>
      fetch(`${service.management}/api/v1/${path}`),
    );
    for (const page of pages) expect(await (await page).text()).not.toContain(TOKEN);
    expect(service.log.join('\n')).not.toContain(TOKEN);
  });

  it.each<[string, object, RegExp]>([
    ['a literal', { authorization: 'Bearer abcdefgh' }, /headers.authorization must contain a reference such as/],
    ['a variable without the prefix', { 'x-key': env('HOME') }, /names begin with SERVICE_SECRET_ are allowed/],
    ['a path', { 'x-key': file('../outside') }, /expected the name of a file/],
    [
      'a bound secret',
      { 'x-key': env('SERVICE_SECRET_BOUND') },
      /binds to https:\/\/crm\.example\.com and not to http/,
    ],
    ['a bound file', { 'x-key': file('lines') }, /binds to http:\/\/127\.0\.0\.1:1 and not to http/],
    ['a header of the connection', { Host: env('SERVICE_SECRET_TOKEN') }, /is set by the service itself/],
  ])('must not contain %s', async (_what, headers, message) => {
    const rejected = await register('http://127.0.0.1:9/mcp', headers);
    expect(rejected).toMatchObject({ status: 400, code: 'BAD_REQUEST', message: expect.stringMatching(message) });
    expect(JSON.stringify(rejected)).not.toMatch(/abcdefgh|bound-value|a-secret/);
    expect((await manage('GET', `/${name}`)).status).toBe(404);
  });

  it.each([
    ['a variable that is not set', env('SERVICE_SECRET_NONE'), 'which is not set'],
    ['a missing file', file('none'), 'which does not exist'],
    ['a folder', file('folder'), 'which is not a regular file'],
    ['a FIFO', file('fifo'), 'which is not a regular file'],
    ['a link out of the folder', file('link-out'), 'which is a link to a file outside of SERVICE_SECRETS_PATH'],
    ['a link to the environment', file('environ'), 'which is a link to a file outside'],
    ['a file of 1 MiB', file('large'), 'which has more than 8192 bytes'],
    ['an empty file', file('empty'), 'which is empty'],
  ])('with %s make the forward unavailable, and nothing is sent', async (_what, reference, reason) => {
    const upstream = await startUpstream();
    expect(await register(upstream.url, { 'x-key': reference })).toMatchObject({
      status: 201,
      available: false,
      statusMessage: expect.stringContaining(`was not called: its header x-key refers to ${reference}, ${reason}`),
    });
    expect(upstream.seen).toEqual([]);
  });

  it('use the value of a file that has changed within a second', async () => {
    const path = join(folder, 'secrets', 'rotated');
    await writeFile(path, 'first-value\n');
    const upstream = await startUpstream({
      scripts: { 'tools/call': textResultText('first-value, not second-value') },
    });
    await register(upstream.url, { 'x-key': `k ${file('rotated')}` });
    const call = async () => {
      const text = reply(await callEcho());
      return [upstream.seen.at(-1)?.headers['x-key'], JSON.parse(text).result.content[0].text];
    };
    expect(await call()).toEqual(['k first-value', '[REDACTED], not second-value']);
    await writeFile(path, 'second-value');
    // The upstream may still repeat the old one.
    await expect.poll(call).toEqual(['k second-value', '[REDACTED], not [REDACTED]']);
    await rm(path);
    await expect.poll(async () => reply(await callEcho())).toContain(`${file('rotated')}, which does not exist`);
    expect(await manage('GET', `/${name}`)).toMatchObject({
      available: false,
      statusMessage: expect.stringContaining(
        'which does not exist; set the secret where the service runs, or change "headers" of the forward; retrying in',
      ),
    });
  });
});

describe('a change of headers', () => {
  it('is a merge patch, is part of the ETag and is discovered', async () => {
    const upstream = await startUpstream();
    const headers = { ...AUTHORIZATION, 'user-agent': 'a' };
    await register(upstream.url, headers);
    const etag = async () => (await fetch(`${service.management}/api/v1/forwards/${name}`)).headers.get('etag');
    const before = await etag();
    const seen = upstream.seen.length;
    expect(await manage('PATCH', `/${name}`, { headers: { authorization: null, 'User-Agent': 'b' } })).toMatchObject({
      headers: { 'User-Agent': 'b' },
      available: true,
    });
    expect(await etag()).not.toBe(before);
    expect(upstream.seen.length).toBeGreaterThan(seen);
    for (const { headers: sent } of upstream.seen.slice(seen).filter(({ http }) => http === 'POST')) {
      expect(sent['user-agent']).toBe('b');
      expect(sent).not.toHaveProperty('authorization');
    }
    expect(await manage('PATCH', `/${name}`, { headers: null })).not.toHaveProperty('headers');
  });

  it('is required for another origin, and secrets are not sent there without it', async () => {
    const upstream = await startUpstream();
    const other = await startUpstream();
    await register(upstream.url, AUTHORIZATION);
    const moved = { address: other.url };
    expect(await manage('PATCH', `/${name}`, moved)).toMatchObject({
      status: 400,
      message: expect.stringMatching(/another origin: send headers with it, to confirm or change Authorization/),
    });
    expect(other.seen).toEqual([]);
    expect(await manage('PATCH', `/${name}`, { address: `${upstream.url}?v=2` })).toMatchObject({ status: 200 });
    expect(await manage('PATCH', `/${name}`, { ...moved, headers: {} })).toMatchObject({ headers: AUTHORIZATION });
    expect(other.seen.length).toBeGreaterThan(0);
    for (const { headers } of other.seen) expect(headers.authorization).toBe(BEARER);
  });

  it('must not use a secret that is bound to another origin', async () => {
    const upstream = await startUpstream();
    await register(upstream.url, AUTHORIZATION);
    const headers = { 'x-key': env('SERVICE_SECRET_BOUND') };
    expect(await manage('PATCH', `/${name}`, { headers })).toMatchObject({ status: 400 });
    expect(await manage('GET', `/${name}`)).toMatchObject({ headers: AUTHORIZATION, available: true });
    expect(
      await manage('PATCH', `/${name}`, {
        address: 'https://crm.example.com/mcp',
        headers: { ...headers, authorization: null },
      }),
    ).toMatchObject({ status: 200 });
  });
});

describe('the values of headers', () => {
  it('are never sent to the target of a redirect', async () => {
    const other = await startUpstream();
    const upstream = await startRedirect(other.url);
    expect(await register(upstream.url, AUTHORIZATION)).toMatchObject({
      available: false,
      statusMessage: expect.stringContaining('redirects to http://127.0.0.1'),
    });
    upstream.server.close();
    expect(upstream.authorizations).toContain(BEARER);
    expect(other.seen).toEqual([]);
  });

  it.each([401, 403])('are removed from the text of a %s, and the message says what to set', async (status) => {
    const upstream = await startUpstream();
    upstream.fault = {
      kind: 'http',
      status,
      type: 'application/json',
      body: `{"error":"invalid_token","error_description":"unknown token ${TOKEN.replace('/', '\\/')}\\u0007\\u202e\\nin realm crm"}`,
    };
    const { statusMessage } = await register(upstream.url, AUTHORIZATION);
    expect(statusMessage).toContain(
      `with HTTP ${status}, application/json: "unknown token [REDACTED] \\u202e in realm crm"; `,
    );
    expect(statusMessage).toMatch(/its credentials in "headers" of the forward/);
    expect(service.log.join('\n')).toContain('unknown token [REDACTED]');
    expect(service.log.join('\n')).not.toContain(TOKEN);
  });

  it.each([
    ['text/plain', '"unauthorized"'],
    ['application/json', '{"error":"unauthorized"}'],
  ])('are missing: the error for a 401 of %s says what to set', async (type, body) => {
    const upstream = await startUpstream();
    await service.register('forwards', { name, address: upstream.url, namespace: name });
    upstream.scripts['tools/call'] = { kind: 'http', status: 401, type, body };
    expect(JSON.parse(reply(await callEcho())).error.message).toBe(
      `forwarded tool call failed: upstream ${upstream.url} answered tools/call with HTTP 401, ${type}: ` +
        `${type === 'text/plain' ? '""unauthorized""' : '"unauthorized"'}; set its credentials in "headers" of the forward`,
    );
  });

  it('are removed from results, errors, notifications and events', async () => {
    const upstream = await startUpstream({ eras: ['modern'] });
    await register(upstream.url, AUTHORIZATION);
    const notification = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":${JSON.stringify(BEARER)}}}`;
    upstream.scripts['tools/call'] = {
      kind: 'result',
      text: textResultText(`your token is ${TOKEN}`),
      before: [notification],
    };
    const streamed = reply(await callEcho());
    expect(streamed).toContain('your token is [REDACTED]');
    upstream.scripts['tools/call'] = textResultText(`json ${TOKEN}`);
    const json = reply(await callEcho());
    expect(JSON.parse(json).result.content[0].text).toBe('json [REDACTED]');
    upstream.scripts['tools/call'] = {
      kind: 'error',
      text: `{"code":-32000,"message":"bad ${TOKEN}","data":{"${TOKEN}":1}}`,
    };
    const failed = reply(await callEcho());
    expect(failed).toContain('"bad [REDACTED]","data":{"[REDACTED]":1}');
    upstream.scripts['tools/call'] = textResultText(`large ${'x'.repeat(200_000)} ${TOKEN}`);
    const large = reply(await callEcho());
    expect(large).toContain('x [REDACTED]"');
    const events = await (await fetch(`${service.management}/api/v1/tool-calls`)).text();
    expect(events).toContain('your token is [REDACTED]');
    expect(events).toContain('bad [REDACTED]');
    for (const text of [streamed, json, failed, large, events, ...service.log]) expect(text).not.toContain(TOKEN);
  });

  it('are removed from an event stream that is split within one', async () => {
    const upstream = await startLiveUpstream();
    upstreams.push(upstream);
    await register(upstream.url, AUTHORIZATION);
    const client = await legacyClient(service.url(name));
    const response = client.call('tools/call', '{"name":"work"}');
    const call = await upstream.calls.next();
    const message = `data: ${call.answerText(`your ${TOKEN} is ${TOKEN}`)}\n\n`;
    call.begin();
    for (const part of message.match(/.{1,9}|\n\n/g) ?? []) {
      await new Promise<void>((resolve) => call.response.write(part, () => resolve()));
    }
    call.response.end();
    expect(reply(await response)).toContain('your [REDACTED] is [REDACTED]');
  });

  it('do not change responses in which they do not occur', async () => {
    const upstream = await startUpstream({ eras: ['modern'] });
    await register(upstream.url, AUTHORIZATION);
    const text = '{ "content":[ {"type":"text","text":"\\u0065\\/ eyJ0b2tl ü"}],"resultType":"complete","x":1.00}';
    upstream.scripts['tools/call'] = text;
    expect((await callEcho()).text).toContain(text);
  });
});

/** A server that redirects all requests. */
async function startRedirect(location: string) {
  const authorizations: (string | undefined)[] = [];
  const server: Server = createServer((request, response) => {
    authorizations.push(request.headers.authorization);
    response.writeHead(307, { location }).end();
  });
  return { server, authorizations, url: `http://127.0.0.1:${await listen(server, 0)}/mcp` };
}

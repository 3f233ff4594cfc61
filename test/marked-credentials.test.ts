import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createSigner, keySet, sign } from '../packages/server/src/identity/signed-tokens.fixture.ts';
import {
  startWorkingService,
  type WorkingService,
} from '../packages/server/src/upstreams/grpc/fixtures/working-service.ts';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';
import { legacyClient, modernClient, post, type RawResponse, reply, send } from './fixtures/raw-client.ts';
import { sendBytes } from './fixtures/raw-exchange.ts';
import { textResultText, toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from './fixtures/raw-upstream.ts';
import { startTappedBackend, type TappedBackend } from './fixtures/tapped-backend.ts';

// Credentials and identity headers, in every notation that an intermediary may take for the same, leave the service nowhere:
// not to upstreams of MCP, capability services, the legacy backend and models, not in a log line, an event or a response.

const KEY = `slk_${randomBytes(32).toString('base64url')}`;
/** In all of them. */
const MARK = KEY.slice(4, 24);
/** Identity headers that count without `identity`: whoever believes them elsewhere must not get them. */
const IDENTITY = ['x-forwarded-user', 'x-auth-request-user'];
/** Header of a forward, and its value. */
const SECRET = `$\{env:SERVICE_SECRET_OWN}`;
const OWN = 'own-secret';
const credentialHeaders = new Set(['authorization', 'x-sluice-authorization', ...IDENTITY]);
const ISSUER = 'https://id.example.com';
const signer = await createSigner();
const AUDIENCES = ['api://all', 'api://admin'];
const NOW = Math.floor(Date.now() / 1_000);
const TOKEN = await sign(signer, { iss: ISSUER, sub: 'ann', aud: AUDIENCES, iat: NOW, exp: NOW + 3_600, marked: MARK });
/** In its signature: what is written of a token has it, unlike one of its claims. */
const TOKEN_MARK = TOKEN.slice(-40, -20);
const EACH = new RegExp(`${MARK}|${TOKEN_MARK}`);
const SETTINGS = {
  tokens: [
    {
      name: 'corp',
      issuer: ISSUER,
      jwks_url: keySet(signer),
      audiences: [{ value: AUDIENCES[0], for: ['*'] }],
      management_audiences: [AUDIENCES[1]],
    },
  ],
  proxy: { trusted: ['192.0.2.1/32'], user: 'x-user' },
  keys: [{ name: 'marked', sha256: [createHash('sha256').update(KEY).digest('hex')], management: true }],
};

/** Lines of all identity headers: as named, in upper case and with underscores. */
const IDENTITY_LINES = IDENTITY.flatMap((name) => [name, name.toUpperCase(), name.replaceAll('-', '_')]);
const IDENTITY_HEADERS = Object.fromEntries(IDENTITY_LINES.map((name, at) => [name, `${MARK}-${at}`]));
const CREDENTIAL = `Bearer ${KEY}`;
const markedWith = (credential: string) => ({
  ...IDENTITY_HEADERS,
  authorization: credential,
  'x-sluice-authorization': credential,
  cookie: `theme=dark; __Host-sluice=${MARK}; sluice=${MARK}; sluice-login=${MARK}`,
  'x-passed': 'yes',
});
const MARKED = markedWith(CREDENTIAL);
const MARKED_TOKEN = markedWith(`Bearer ${TOKEN}`);

let folder: string;
let upstream: RawUpstream;
let capability: WorkingService;
let legacy: TappedBackend;
let model: TappedBackend;
let provider: TappedBackend;
let service: TestService;
/** Requests to the upstream without settings. */
let seenBefore = 0;
const responses: RawResponse[] = [];
const sent = async (request: Promise<RawResponse>): Promise<RawResponse> => {
  const response = await request;
  responses.push(response);
  return response;
};

beforeAll(async () => {
  upstream = await startRawUpstream({
    scripts: { 'tools/list': toolList(toolText('echo')), 'tools/call': textResultText('done') },
  });
  capability = await startWorkingService();
  const tap = () => startTappedBackend((_arrived, response) => void response.end('{}'));
  [legacy, model, provider] = await Promise.all([tap(), tap(), tap()]);
  const env = {
    SERVICE_PUBLIC_URL: 'https://agents.example.com',
    SERVICE_CLASSIC_URL: legacy.url,
    SERVICE_INFERENCE_UPSTREAM: `127.0.0.1:${model.port}`,
    SERVICE_AUTH_ISSUER: 'https://id.example/realms/r',
    SERVICE_AUTH_UPSTREAM_ISSUER: provider.url,
    SERVICE_AUTH_REGISTRATION: 'forward',
    SERVICE_FORWARD_HEADERS: 'x-passed,cookie',
    SERVICE_SECRET_OWN: OWN,
    RUST_LOG: 'trace',
  };
  folder = await mkdtemp(join(tmpdir(), 'sluice-marked-'));
  await writeFile(join(folder, 'service.yaml'), JSON.stringify({ identity: SETTINGS }));
  const stored = { ...env, SERVICE_PERSIST_BACKEND: 'file', SERVICE_PERSIST_PATH: join(folder, 'data') };
  // Such headers can be stored before there are settings.
  service = await startTestService(stored);
  await service.register('forwards', {
    name: 'up',
    address: upstream.url,
    headers: { 'X-Sluice-Authorization': SECRET, X_Forwarded_User: SECRET, 'X-Own': SECRET },
  });
  await service.stop(0);
  seenBefore = upstream.seen.length;
  service = await startTestService(stored, ['--service-config', join(folder, 'service.yaml')]);
  const type = { name: 'weather', serviceType: 'multi-capability', host: '127.0.0.1', port: capability.port };
  expect((await service.manage('POST', '/services', type)).status).toBe(201);
  const schema = {
    type: 'object',
    properties: { x_forwarded_user: { target: 'header', scope: 'service', value: 'ann' } },
  };
  await service.register('tools', {
    name: 'forecast',
    description: '',
    toolType: 'weather',
    uri: 'weather://x',
    input_schema: schema,
    labels: { 'service.forward_headers': `x-passed,authorization,${IDENTITY.join(',')}` },
  });
});
afterAll(async () => {
  await service.stop(0);
  capability.close();
  for (const backend of [legacy, model, provider]) backend.close();
  await upstream.close();
  await rm(folder, { recursive: true });
});

/** Headers that an upstream has received, by name. */
const received = ({ requests }: TappedBackend): string[] =>
  requests.flatMap(({ headers }) => headers.filter((_text, at) => at % 2 === 0)).map((name) => name.toLowerCase());

describe('marked credentials', () => {
  it('reach no upstream of MCP, with requests of both eras and in batches', async () => {
    const url = service.url();
    const older = await legacyClient(url, '{}', { authorization: CREDENTIAL });
    for (const client of [older, modernClient(url)]) {
      expect(reply(await sent(client.call('tools/call', '{"name":"echo"}', MARKED)))).toContain('done');
      await sent(client.call('tools/list', '{}', MARKED));
      await sent(client.call('tools/call', '{"name":"unknown"}', MARKED));
    }
    const call = (id: number) => `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"echo"}}`;
    const version = { protocolVersion: '2025-03-26', capabilities: {}, clientInfo: { name: 'c', version: '1' } };
    const initialize = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params: version });
    const session = String((await sent(post(url, initialize, MARKED))).headers['mcp-session-id']);
    const batch = await sent(post(url, `[${call(8)},${call(9)}]`, { 'mcp-session-id': session, ...MARKED }));
    expect(batch.text.match(/done/g)).toHaveLength(2);
    await sent(send(url, 'DELETE', { ...older.headers, ...MARKED }));
    const calls = upstream.seen.filter(({ method }) => method === 'tools/call');
    expect(calls.length).toBe(4);
    for (const { headers } of calls) expect([headers['x-passed'], headers.cookie]).toEqual(['yes', 'theme=dark']);
    for (const { headers } of upstream.seen.slice(seenBefore)) {
      // The header of the forward itself is sent: only those that name a user are not.
      expect(headers['x-own']).toBe(OWN);
      expect(Object.keys(headers).filter((name) => credentialHeaders.has(name.replaceAll('_', '-')))).toEqual([]);
      expect(JSON.stringify(headers)).not.toContain(MARK);
    }
  });

  it('reach no capability service, and no argument of a call becomes such a header', async () => {
    const args = Object.fromEntries(
      IDENTITY_LINES.flatMap((name) => ['service_meta_', 'service_auth_'].map((prefix) => [prefix + name, MARK])),
    );
    const params = JSON.stringify({ name: 'forecast', arguments: { ...args, service_meta_y: '1' } });
    await sent(modernClient(service.url()).call('tools/call', params, MARKED));
    expect(capability.tools.map(({ request }) => request.headers)).toEqual([{ y: '1' }]);
    expect(JSON.stringify(capability.tools)).not.toContain(MARK);
  });

  it('reach neither the legacy backend nor a model', async () => {
    const { authorization: _, ...headers } = MARKED;
    const completion = '{"model":"m","messages":[{"role":"user","content":"hello"}]}';
    await sent(send(`${service.management}/api/v1/data-store`, 'PATCH', MARKED, '{}'));
    await sent(post(`http://${service.addresses.inference}/v1/chat/completions`, completion, headers));
    for (const backend of [legacy, model]) {
      expect(backend.requests).toHaveLength(1);
      expect(received(backend)).toContain('x-passed');
      expect(backend.received).not.toContain(MARK);
    }
  });

  it('reach the identity provider as the Authorization of its client only', async () => {
    const form = { ...IDENTITY_HEADERS, authorization: 'Basic eDp5', 'content-type': 'text/x' };
    for (const path of ['token', 'register']) await sent(send(`${service.mcp}/${path}`, 'POST', form, 'a=b'));
    expect(provider.requests).toHaveLength(2);
    for (const { headers } of provider.requests) {
      expect(headers).toEqual(expect.arrayContaining(['authorization', 'Basic eDp5', 'content-type', 'text/x']));
    }
    expect(provider.received).not.toContain(MARK);
  });

  it('reach no other server as tokens, but a model gets its own credential', async () => {
    const client = modernClient(service.url());
    expect(reply(await sent(client.call('tools/call', '{"name":"echo"}', MARKED_TOKEN)))).toContain('done');
    await sent(client.call('tools/call', '{"name":"forecast","arguments":{}}', MARKED_TOKEN));
    const [legacyBefore, modelBefore] = [legacy.requests.length, model.requests.length];
    await sent(send(`${service.management}/api/v1/data-store`, 'PATCH', MARKED_TOKEN, '{}'));
    const models = `http://${service.addresses.inference}/v1/models`;
    const own = 'Bearer model-key';
    await sent(send(models, 'GET', { ...MARKED_TOKEN, authorization: own }));
    // On the inference listener, a token in Authorization is that of the model.
    await sent(send(models, 'GET', { authorization: MARKED_TOKEN.authorization.slice(0, 60) }));
    expect([legacy.requests.length - legacyBefore, model.requests.length - modelBefore]).toEqual([1, 2]);
    expect(received(legacy)).not.toContain('authorization');
    const [first, second] = model.requests.slice(modelBefore).map(({ headers }) => headers);
    expect(first).toContain(own);
    expect(second).toContain(MARKED_TOKEN.authorization.slice(0, 60));
    for (const each of [legacy, model]) expect(each.received).not.toContain(TOKEN_MARK);
    expect(JSON.stringify([upstream.seen, capability.tools])).not.toContain(TOKEN_MARK);
  });

  it('are in no response, log line, event or interaction, also of requests that are rejected', async () => {
    const { port } = new URL(service.mcp);
    const lines = IDENTITY_LINES.map((name) => `${name}: ${MARK}\r\n`).join('');
    const host = `Host: 127.0.0.1:${port}\r\nConnection: close\r\n`;
    const raw = [
      `POST /default/mcp HTTP/1.0\r\n${host}${lines}\r\n`,
      `POST /default/mcp HTTP/1.1\r\n${host}${lines}${lines}Content-Length: 0\r\n\r\n`,
      `POST /default/mcp HTTP/1.1\r\n${host}X: a\r\n ${lines}\r\n`,
      `POST /default/mcp HTTP/1.1\r\n${host}Authorization : ${MARK}\r\n\r\n`,
      `GET /default/mcp HTTP/1.1\r\nHost: foreign\r\nConnection: close\r\n${lines}\r\n`,
      `GET /default/mcp HTTP/1.1\r\n${host}${lines}Transfer-Encoding: gzip\r\n\r\n`,
      `CONNECT a:1 HTTP/1.1\r\n${host}${lines}\r\n`,
    ];
    for (const bytes of raw) expect(await sendBytes(Number(port), bytes)).not.toContain(MARK);
    for (const path of [
      'x',
      '../x',
      'api/v1/tools',
      'api/v1/diagnostics',
      'api/v1/nothing',
      'metrics',
      'default/mcp',
    ]) {
      const inference = `http://${service.addresses.inference}`;
      for (const base of [service.mcp, service.management, inference]) {
        await sent(send(`${base}/${path}`, 'GET', MARKED));
        const { authorization, ...others } = MARKED_TOKEN;
        await sent(send(`${base}/${path}`, 'GET', base === inference ? others : { ...others, authorization }));
      }
    }
    for (const path of ['tool-calls', 'interactions', 'metrics', 'forwards', 'logs'])
      expect(JSON.stringify(await service.manage('GET', `/${path}`))).not.toMatch(EACH);
    for (const { text, headers } of responses) expect(text + JSON.stringify(headers)).not.toMatch(EACH);
    expect(service.log.length).toBeGreaterThan(20);
    expect(service.log.filter((line) => EACH.test(line))).toEqual([]);
    for (const backend of [legacy, model]) expect(backend.received).not.toMatch(EACH);
  });
});

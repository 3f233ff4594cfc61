import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { LISTEN_HEADERS, listenText } from '../packages/server/testing/listening-client.ts';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';
import { ResponseReader, type SessionClient, sessionClient } from '../packages/server/testing/session-client.ts';
import { type RawResponse, reply, send } from './fixtures/raw-client.ts';
import { textResultText, toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from './fixtures/raw-upstream.ts';
import { startTappedBackend, type TappedBackend } from './fixtures/tapped-backend.ts';

// What a credential has begun ends when it is not accepted any more, and with it what was begun upstream.

const newKey = () => `slk_${randomBytes(32).toString('base64url')}`;
const sha256 = (key: string) => createHash('sha256').update(key).digest('hex');
const KEYS = { root: newKey(), agent: newKey(), other: newKey() } as const;
type Name = keyof typeof KEYS;

const key = (name: Name) => ({ name, sha256: [sha256(KEYS[name])], groups: [name], management: true });
const ROLES = {
  admin: ['keys/root'],
  operator: ['keys/agent', 'keys/other'],
  auditor: ['keys/agent', 'keys/other', 'proxy/staff'],
};
const PROXY = { trusted: ['127.0.0.1/32'], user: 'x-user', groups: 'x-groups' };
const ALL = {
  anonymous: 'deny',
  inference: true,
  proxy: PROXY,
  keys: [key('root'), key('agent'), key('other')],
  roles: ROLES,
};

const bearer = (name: Name) => ({ authorization: `Bearer ${KEYS[name]}` });

let folder: string;
let upstream: RawUpstream;
let asking: RawUpstream;
let model: TappedBackend;
let service: TestService;

beforeAll(async () => {
  upstream = await startRawUpstream({ scripts: { 'tools/list': toolList(toolText('work')) } });
  asking = await startRawUpstream({ eras: ['legacy'], scripts: { 'tools/list': toolList(toolText('ask')) } });
  model = await startTappedBackend((_arrived, response) => {
    completions.push(response);
  });
  folder = await mkdtemp(join(tmpdir(), 'sluice-revoked-'));
  const file = join(folder, 'service.yaml');
  const forwards = [
    { name: 'up', address: upstream.url },
    { name: 'asking', address: asking.url },
  ];
  await writeFile(file, JSON.stringify({ identity: ALL, forwards, namespaces: [{ name: 'finance' }] }));
  service = await startTestService({ SERVICE_INFERENCE_UPSTREAM: `127.0.0.1:${model.port}` }, [
    '--service-config',
    file,
  ]);
});
afterAll(async () => {
  await service?.stop(0);
  model?.close();
  await Promise.all([upstream?.close(), asking?.close()]);
  await rm(folder, { recursive: true, force: true });
});

const completions: { readonly closed: boolean; end(text: string): void }[] = [];

/** Activates these settings; resolves when they are acknowledged. */
async function activate(identity: object): Promise<void> {
  const headers = { ...bearer('root'), 'content-type': 'application/json' };
  const response = await send(`${service.management}/api/v1/identity`, 'PUT', headers, JSON.stringify({ identity }));
  expect(response).toMatchObject({ status: 200 });
}

const without = (...names: Name[]) => ({ ...ALL, keys: ALL.keys.filter(({ name }) => !names.some((n) => n === name)) });

beforeEach(async () => {
  await expect.poll(() => Math.min(upstream.count('tools/list'), asking.count('tools/list'))).toBeGreaterThan(0);
  await activate(ALL);
  upstream.scripts['tools/call'] = { kind: 'silence' };
});

const JSON_HEADERS = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
const META =
  '"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}},"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}';
const MODERN_HEADERS = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call' };

const modernCall = (headers: Readonly<Record<string, string>>, url = service.url(), tool = 'work') =>
  new ResponseReader(
    url,
    'POST',
    { ...JSON_HEADERS, ...MODERN_HEADERS, 'mcp-name': tool, ...headers },
    `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"${tool}","_meta":{${META}}}}`,
  );
const listen = (headers: Readonly<Record<string, string>>) =>
  new ResponseReader(service.url(), 'POST', { ...LISTEN_HEADERS, ...headers }, listenText({ toolsListChanged: true }));
const complete = (headers: Readonly<Record<string, string>>, length?: number) => {
  const body = '{"model":"m","messages":[{"role":"user","content":"hello"}]}';
  const url = `http://${service.addresses.inference}/v1/chat/completions`;
  const own = { 'content-type': 'application/json', 'content-length': String(length ?? body.length) };
  return new ResponseReader(url, 'POST', { ...own, ...headers }, body);
};

/** Calls that the upstream is executing now. */
const running = ({ seen } = upstream) => {
  const canceled = new Set(
    seen
      .filter(({ method }) => method === 'notifications/cancelled')
      .map(({ session, params }) => `${session} ${JSON.stringify(params.requestId)}`),
  );
  return seen.filter(
    ({ method, isDisconnected, session, id }) =>
      method === 'tools/call' && !isDisconnected && !canceled.has(`${session} ${id}`),
  );
};
const statusOf = async (reader: ResponseReader) => (await reader.head).statusCode;

/** The open requests of a caller, of each kind. */
async function openAll(name: Name) {
  const before = running().length;
  const session: SessionClient = await sessionClient(service.url(), {}, bearer(name));
  const older = await sessionClient(service.url(), { version: '2025-03-26' }, bearer(name));
  const opened = completions.length;
  const calls = {
    legacy: session.call('1'),
    modern: modernCall(bearer(name)),
    console: modernCall(bearer(name), `${service.management}/api/v1/namespaces/default/mcp`),
    batch: new ResponseReader(
      service.url(),
      'POST',
      { ...JSON_HEADERS, ...older.headers },
      `[${[8, 9].map((id) => `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"work"}}`).join()}]`,
    ),
    completion: complete({ 'x-sluice-authorization': `Bearer ${KEYS[name]}` }),
    unfinished: complete({ 'x-sluice-authorization': `Bearer ${KEYS[name]}` }, 1_000),
  };
  const streams = {
    notifications: session.listen(),
    subscription: listen(bearer(name)),
    events: new ResponseReader(`${service.management}/api/v1/events`, 'GET', bearer(name)),
    logs: new ResponseReader(`${service.management}/api/v1/logs/notifications`, 'GET', bearer(name)),
  };
  for (const stream of Object.values(streams)) expect(await statusOf(stream)).toBe(200);
  await expect.poll(() => running().length).toBe(before + 5);
  await expect.poll(() => completions.length).toBe(opened + 1);
  const completion = completions[opened];
  if (!completion) throw new Error('no completion');
  const all = [...Object.values(calls), ...Object.values(streams)];
  onTestFinished(() => {
    for (const reader of all) reader.disconnect();
  });
  return { calls, streams, session, completion };
}

describe('a removed key', () => {
  it('ends all requests that it has admitted, and what they do upstream, before the change is acknowledged', async () => {
    const agent = await openAll('agent');
    const others = running();
    const other = await openAll('other');
    const ofOther = running().filter((call) => !others.includes(call));
    await activate(without('agent'));

    const { unfinished, ...calls } = agent.calls;
    for (const reader of Object.values(calls)) {
      expect(await statusOf(reader)).toBe(401);
      expect((await reader.head).headers['www-authenticate']).toBe('Bearer error="invalid_token"');
      expect(await reader.ended).toBe(true);
      expect(reader.text).toContain('the credential is not accepted any more');
    }
    expect(await statusOf(unfinished)).toBe(401);
    const { notifications, subscription, ...ofManagement } = agent.streams;
    expect(await Promise.all([notifications.ended, subscription.ended])).toEqual([false, false]);
    for (const stream of Object.values(ofManagement)) await stream.ended;
    await expect.poll(() => running()).toEqual(ofOther);
    await expect.poll(() => agent.completion.closed).toBe(true);
    expect(await agent.session.post('{"jsonrpc":"2.0","id":5,"method":"ping"}')).toMatchObject({ status: 401 });

    // Nothing of the others has ended.
    expect(other.completion.closed).toBe(false);
    upstream.scripts['tools/list'] = toolList(toolText('work'), toolText('more'));
    upstream.push('{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}');
    const { notifications: changes, subscription: changesToo } = other.streams;
    await expect.poll(() => [changes, changesToo].every(({ text }) => text.includes('tools/list_changed'))).toBe(true);
    other.completion.end('{}');
    expect(await statusOf(other.calls.completion)).toBe(200);
  });

  it('ends a call that continues without its client, which is not executed again', async () => {
    const session = await sessionClient(service.url(), {}, bearer('agent'));
    const before = running().length;
    const call = session.call('1');
    await expect.poll(() => running().length).toBe(before + 1);
    const started = upstream.count('tools/call');
    call.disconnect();
    await call.ended;
    expect(running()).toHaveLength(before + 1);
    await activate(without('agent'));
    await expect.poll(() => running().length).toBe(before);
    await activate(ALL);
    expect(await session.request('ping')).toMatchObject({ result: {} });
    expect(upstream.count('tools/call')).toBe(started);
  });

  it('ends a suspended call', async () => {
    const elicitation =
      '{"jsonrpc":"2.0","id":77,"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}';
    const until = new Promise(() => {});
    asking.scripts['tools/call'] = { kind: 'result', text: '{"content":[]}', before: [elicitation], until };
    const call = modernCall(bearer('agent'), service.url(), 'ask');
    expect(await call.ended).toBe(true);
    expect(call.text).toContain('input_required');
    expect(running(asking)).toHaveLength(1);
    await activate(without('agent'));
    await expect.poll(() => running(asking)).toEqual([]);
  });
});

describe('a proxy that is not trusted any more, and another name', () => {
  it.each<[string, object]>([
    ['other peers', { ...PROXY, trusted: ['127.0.0.2/32'] }],
    ['ids without prefix', { ...PROXY, bare: true }],
    ['service accounts', { ...PROXY, service_accounts: ['ann'] }],
  ])('end what its headers have admitted: %s', async (_what, proxy) => {
    const before = running().length;
    const headers = { 'x-user': 'ann', 'x-groups': 'staff' };
    const call = modernCall(headers);
    await expect.poll(() => running().length).toBe(before + 1);
    await activate({ ...ALL, proxy, roles: { admin: ['keys/root'] } });
    expect(await statusOf(call)).toBe(401);
    await expect.poll(() => running().length).toBe(before);
  });
});

it('a key of other groups keeps its requests, and loses streams that need a role', async () => {
  const before = running().length;
  const call = modernCall(bearer('agent'));
  const paths = ['events', 'logs/notifications', 'tool-calls/notifications'];
  const open = (name: Name) =>
    paths.map((path) => new ResponseReader(`${service.management}/api/v1/${path}`, 'GET', bearer(name)));
  const [own, others] = [open('agent'), open('other')];
  for (const stream of [...own, ...others]) expect(await statusOf(stream)).toBe(200);
  await expect.poll(() => running().length).toBe(before + 1);
  await activate({ ...ALL, roles: { admin: ['keys/root'], auditor: ['keys/other'] } });
  for (const stream of own) await stream.ended;
  upstream.scripts['tools/call'] = textResultText('done');
  expect(running()).toHaveLength(before + 1);
  for (const stream of others) stream.disconnect();
  call.disconnect();
});

it('a session answers 404 to another principal', async () => {
  const session = await sessionClient(service.url(), {}, bearer('agent'));
  const ping = (headers: Readonly<Record<string, string>>): Promise<RawResponse> =>
    session.post('{"jsonrpc":"2.0","id":1,"method":"ping"}', headers);
  expect(reply(await ping({}))).toContain('"result"');
  expect(await ping(bearer('other'))).toMatchObject({ status: 404 });
  expect(
    await send(session.url, 'GET', { ...session.headers, accept: 'text/event-stream', ...bearer('other') }),
  ).toMatchObject({ status: 404 });
  expect(await send(session.url, 'DELETE', { ...session.headers, ...bearer('other') })).toMatchObject({ status: 404 });
  expect(reply(await ping({}))).toContain('"result"');
});

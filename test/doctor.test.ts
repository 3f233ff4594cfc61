import { once } from 'node:events';
import { mkdtemp, rm, utimes, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type DiagnosticCheck, diagnosticCheck, diagnostics } from '@sluice/contract';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { z } from 'zod';
import { run } from '../packages/cli/src/run.ts';
import { scriptedTerminal } from '../packages/cli/src/testing/scripted-terminal.ts';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';
import { listen } from './fixtures/http-server.ts';
import { toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from './fixtures/raw-upstream.ts';

const SECRET = 'correct-horse-battery-staple';

let folder: string;
let upstream: RawUpstream;
/** Responds to nothing but HEAD, with a wrong clock, and holds the requests to `/slow`. */
let model: Server;
let modelUrl: string;
let releaseSlow: () => void;
let service: TestService;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-doctor-'));
  upstream = await startRawUpstream({ scripts: { 'tools/list': toolList(toolText('greet')) } });
  const slow = Promise.withResolvers<void>();
  releaseSlow = slow.resolve;
  model = createServer(async ({ url }, response) => {
    if (url?.startsWith('/slow')) await slow.promise;
    response.writeHead(404, { date: new Date(Date.now() - 3_600_000).toUTCString() }).end();
  }).listen(0, '127.0.0.1');
  await once(model, 'listening');
  const address = model.address();
  modelUrl = `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`;
  const bootstrap = join(folder, 'service.yaml');
  await writeFile(
    bootstrap,
    JSON.stringify({
      llm_connections: [
        { name: 'local', model: 'm', url: `${modelUrl}/v1`, api_key: SECRET },
        { name: 'other', model: 'm', url: `${modelUrl}/slow` },
        { name: 'third', model: 'm', url: `${modelUrl}/v1` },
      ],
      evaluators: [
        {
          name: 'gate',
          trigger: { method: 'tools/call', namespace: 'default' },
          llm: { operation: 'classify', prompt: 'Safe?', connection: 'local' },
          processor: { path: 'none.wasm' },
          on_error: 'block',
        },
      ],
    }),
  );
  service = await startTestService(
    {
      SERVICE_PERSIST_BACKEND: 'file',
      SERVICE_PERSIST_PATH: join(folder, 'data'),
      SERVICE_SECRET_CRM: SECRET,
      SERVICE_AUTH_ISSUER: 'http://127.0.0.1:9/realms/sluice',
    },
    ['--service-config', bootstrap],
  );
  const headers = { authorization: `Bearer \${env:SERVICE_SECRET_CRM}` };
  await service.register('forwards', { name: 'crm', address: upstream.url, headers });
  await service.register('forwards', { name: 'down', address: `http://127.0.0.1:9/mcp?key=${SECRET}` });
  await service.register('forwards', { name: 'wrong', address: `${modelUrl}/mcp` });
  await service.manage('POST', '/services', {
    name: 'weather',
    host: '127.0.0.1',
    port: 9,
    serviceType: 'tool-invoker',
  });
});
afterAll(async () => {
  releaseSlow();
  await service.stop();
  await upstream.close();
  model.close();
  await rm(folder, { recursive: true });
});

function sluice(...argv: string[]): Promise<{ code: number; out: string; err: string }> {
  return sluiceWith({}, ...argv);
}

async function sluiceWith(env: Readonly<Record<string, string>>, ...argv: string[]) {
  const terminal = scriptedTerminal({ cwd: folder, env });
  const code = await run(['--no-auth', ...argv], terminal);
  return { code, out: terminal.out(), err: terminal.err() };
}

describe('diagnostics', () => {
  it('run one at a time', async () => {
    const start = () => fetch(`${service.management}/api/v1/diagnostics`, { method: 'POST' });
    const both = [start(), start()];
    // The other one waits for the model.
    const refused = await Promise.race(both);
    expect([refused.status, await refused.json()]).toMatchObject([
      503,
      { error: { code: 'UNAVAILABLE', message: 'diagnostics are running: wait for their end' } },
    ]);
    releaseSlow();
    expect((await Promise.all(both)).map(({ status }) => status).sort()).toEqual([200, 503]);
  });

  it('name what is wrong and how to fix it, without credentials', async () => {
    const headers = { 'x-forwarded-proto': 'https', 'x-forwarded-user': 'alice@example.com' };
    const response = await fetch(`${service.management}/api/v1/diagnostics`, { method: 'POST', headers });
    const text = await response.text();
    expect(text).not.toContain(SECRET);
    expect(text).not.toContain('alice');
    const { checks } = diagnostics.parse(JSON.parse(text).data);
    const found = Object.fromEntries(checks.map(({ name, ...check }) => [name, check]));
    expect(found).toMatchObject({
      platform: { status: 'ok' },
      ports: { status: 'ok', message: expect.stringMatching(/^management 127\.0\.0\.1:\d+, mcp \S+, inference \S+$/) },
      'pipeline file': { status: 'ok', message: 'none: the built-in pipeline' },
      'service file': {
        status: 'warning',
        message: expect.stringMatching(/^1 warning, first: .*api_key is written in the file/),
      },
      'registry folder': { message: expect.stringContaining(`${join(folder, 'data')} is writable`) },
      'open files': { message: expect.stringMatching(/^\d+ of at most \d+ files are open$/) },
      clock: {
        status: 'failed',
        message: expect.stringMatching(/^the clock is 3\d{3} s ahead of that of other servers$/),
        remedy: expect.stringContaining('Synchronize the clock'),
      },
      'proxy headers': { status: 'ok', message: 'this request has x-forwarded-proto, x-forwarded-user' },
      evaluators: { status: 'failed', message: expect.stringContaining('gate') },
      'forward crm': { status: 'ok' },
      'forward down': {
        status: 'failed',
        message: 'connect: upstream http://127.0.0.1:9/mcp refused the connection (ECONNREFUSED)',
      },
      'forward wrong': {
        status: 'failed',
        message: expect.stringMatching(
          /^era: upstream \S+ is not an MCP server: it answered initialize with HTTP 404$/,
        ),
        remedy: 'check the URL path (usually /mcp)',
      },
      'service weather': { status: 'failed', message: '127.0.0.1:9 refused the connection (ECONNREFUSED)' },
      'model local': { status: 'ok' },
      // A default that need not be used.
      'inference upstream': { status: expect.stringMatching(/^(?:ok|warning)$/) },
      'identity provider': { status: 'failed' },
    });
  });
});

describe('diagnostics of a service', () => {
  async function checksOf(other: TestService, user = ''): Promise<ReadonlyMap<string, DiagnosticCheck>> {
    const headers = { 'x-forwarded-user': user, connection: 'close' };
    const response = await fetch(`${other.management}/api/v1/diagnostics`, { method: 'POST', headers });
    const { data } = Object(await response.json());
    return new Map(diagnostics.parse(data).checks.map((check) => [check.name, check]));
  }

  it('tell whether it would start again with its files', async () => {
    const [pipeline, bootstrap] = [join(folder, 'pipeline.yaml'), join(folder, 'files.yaml')];
    await writeFile(bootstrap, 'namespaces: [finance]');
    expect((await sluice('pipeline', 'show')).out).toContain('listeners:');
    await writeFile(pipeline, (await sluice('pipeline', 'show')).out);
    const other = await startTestService({}, ['--service-config', bootstrap, '--pipeline-config', pipeline]);
    onTestFinished(() => other.stop());
    const before = await checksOf(other);
    expect(before.get('pipeline file')).toEqual({ name: 'pipeline file', status: 'ok', message: pipeline });
    expect(before.get('service file')).toEqual({ name: 'service file', status: 'ok', message: bootstrap });
    await writeFile(bootstrap, 'namespaces: [finance, other]');
    await utimes(bootstrap, new Date(), new Date(Date.now() + 1_000));
    await writeFile(pipeline, 'listeners: [{ name: mcp }]');
    const after = await checksOf(other);
    expect(after.get('service file')).toMatchObject({
      status: 'warning',
      message: `${bootstrap} was changed after the start of the service`,
    });
    expect(after.get('pipeline file')).toMatchObject({
      status: 'failed',
      message: expect.stringContaining(pipeline),
      remedy: expect.stringContaining('does not start'),
    });
  });

  it('name an LLM connection, and never its address', async () => {
    const file = join(folder, 'llm.yaml');
    const urls = { refused: 'http://127.0.0.1:9/v1', unknown: 'http://no-such-host.invalid:4567/v1' };
    const connections = Object.entries(urls).map(([name, url]) => `{ name: ${name}, model: m-secret, url: '${url}' }`);
    await writeFile(file, `llm_connections: [${connections.join(', ')}]`);
    const other = await startTestService({}, ['--service-config', file]);
    onTestFinished(() => other.stop());
    const checks = await checksOf(other);
    expect(checks.get('model refused')).toMatchObject({
      status: 'failed',
      message: 'LLM connection refused refused the connection (ECONNREFUSED)',
    });
    const unknown = checks.get('model unknown');
    expect(unknown).toMatchObject({ status: 'failed', message: expect.stringContaining('LLM connection unknown') });
    const text = JSON.stringify([checks.get('model refused'), unknown]);
    expect(text).not.toMatch(/127\.0\.0\.1|:9|4567|no-such-host|m-secret/);
  });

  it('compare the issuer of the identity provider with the configured one', async () => {
    let issuer = '';
    const provider = createServer(({ url, method }, response) => {
      if (!url?.startsWith('/realms/sluice/.well-known/')) return response.writeHead(404).end();
      return response.end(method === 'HEAD' ? '' : JSON.stringify({ issuer }));
    });
    const port = await listen(provider, 0);
    onTestFinished(() => void provider.close());
    const at = (realm: string) => `http://127.0.0.1:${port}/realms/${realm}`;
    const check = async (realm: string) => {
      const other = await startTestService({ SERVICE_AUTH_ISSUER: at(realm) });
      const found = (await checksOf(other)).get('identity provider');
      await other.stop();
      return found;
    };
    issuer = at('sluice');
    expect(await check('sluice')).toMatchObject({
      status: 'ok',
      message: `127.0.0.1:${port} responds as the issuer ${issuer}`,
    });
    issuer = 'https://login.example.com/realms/sluice';
    expect(await check('sluice')).toMatchObject({
      status: 'failed',
      message: `the issuer is ${issuer}, not ${at('sluice')}`,
      remedy: expect.stringContaining('SERVICE_AUTH_ISSUER'),
    });
    expect(await check('slice')).toMatchObject({
      status: 'failed',
      message: 'the discovery document has status 404',
    });
  });

  it('warn of ports that other machines can reach, unless there is a login', async () => {
    const open = { SERVICE_MCP_LISTEN: '0.0.0.0:0' };
    const unprotected = await startTestService(open);
    expect((await checksOf(unprotected)).get('ports')).toMatchObject({
      status: 'warning',
      message: expect.stringMatching(/^other machines can reach management .*mcp 0\.0\.0\.0:\d+.* no login$/),
    });
    await unprotected.stop();
    const behindLogin = await startTestService({ ...open, SERVICE_AUTH_ISSUER: 'http://127.0.0.1:9/realms/sluice' });
    expect((await checksOf(behindLogin)).get('ports')).toMatchObject({ status: 'ok' });
    await behindLogin.stop();
  });

  it('name the header with the user that identity sets', async () => {
    const file = join(folder, 'header.yaml');
    await writeFile(file, 'identity: { proxy: { trusted: [127.0.0.1/32], user: x-user } }');
    const env = { SERVICE_AUTH_ISSUER: 'http://127.0.0.1:9/realms/sluice' };
    const other = await startTestService(env, ['--service-config', file]);
    expect((await checksOf(other)).get('proxy headers')).toEqual({
      name: 'proxy headers',
      status: 'warning',
      message: 'this request has x-forwarded-user, and no x-user',
      remedy: expect.stringContaining('let it send x-user (identity.proxy.user)'),
    });
    await other.stop();
  });

  it('warn of identity without roles', async () => {
    const file = join(folder, 'identity.yaml');
    const withIdentity = async (settings: string) => {
      await writeFile(file, `identity: { proxy: { trusted: [127.0.0.1/32] }, ${settings} }`);
      const other = await startTestService({ SERVICE_MCP_LISTEN: '0.0.0.0:0' }, ['--service-config', file]);
      const checks = await checksOf(other, 'ann');
      await other.stop();
      return [checks.get('ports')?.status, checks.get('roles')];
    };
    expect(await withIdentity('')).toMatchObject([
      'warning',
      { status: 'warning', message: 'whoever reaches the management port can change everything' },
    ]);
    expect(await withIdentity('anonymous: deny, roles: { admin: ["*"] }')).toMatchObject(['ok', { status: 'ok' }]);
    expect((await checksOf(service)).has('roles')).toBe(false);
  });
});

describe('sluice doctor', () => {
  it('prints the checks with remedies, and exits with 1 if anything must be fixed', async () => {
    const { code, out, err } = await sluice('--host', service.management, 'doctor', '--mcp-url', service.mcp);
    expect([code, err]).toEqual([1, '']);
    expect(out).toMatch(/^CHECK +STATUS +RESULT$/m);
    expect(out).toMatch(/^command line +ok +sluice /m);
    expect(out).toMatch(/^management API +ok +http:\S+ is Sluice /m);
    expect(out).toMatch(/^MCP listener +ok +http:\S+ responds$/m);
    expect(out).toMatch(/^proxy headers +warning +this request passed no proxy, and no user$/m);
    expect(out).toMatch(/^forward down: check that it runs and listens on this address and port/m);
  });

  it('prints all of them as JSON', async () => {
    const { code, out } = await sluice('--host', service.management, 'doctor', '--mcp-url', service.mcp, '-o', 'json');
    expect(code).toBe(1);
    expect(JSON.parse(out)).toContainEqual({
      name: 'forward down',
      status: 'failed',
      message: 'connect: upstream http://127.0.0.1:9/mcp refused the connection (ECONNREFUSED)',
      remedy: expect.any(String),
    });
  });

  it('explains why the service cannot be reached', async () => {
    // Another service may listen on the default port.
    const nobody = 'http://127.0.0.1:9';
    const { code, out } = await sluice('--host', nobody, 'doctor', '--mcp-url', nobody, '-o', 'json');
    expect(code).toBe(1);
    expect(JSON.parse(out)).toMatchObject([
      { name: 'command line', status: 'ok' },
      { name: 'management API', status: 'failed', message: expect.stringContaining('127.0.0.1:9') },
      { name: 'MCP listener', status: 'failed' },
      { name: 'configuration' },
      { name: 'ports' },
      { name: 'registry folder' },
    ]);
  });

  it('explains why the service does not start', async () => {
    const start = async (env: Readonly<Record<string, string>>, ...argv: string[]) => {
      const { out } = await sluiceWith(env, '--host', 'http://127.0.0.1:9', '-o', 'json', 'doctor', ...argv);
      const checks: unknown = JSON.parse(out);
      return z.array(diagnosticCheck).parse(checks).slice(3);
    };
    const ports = {
      SERVICE_MGMT_LISTEN: '127.0.0.1:0',
      SERVICE_MCP_LISTEN: '127.0.0.1:0',
      SERVICE_INFERENCE_LISTEN: '127.0.0.1:0',
      SERVICE_PERSIST_PATH: join(folder, 'new/registry'),
    };
    expect(await start(ports)).toMatchObject([
      { name: 'configuration', status: 'ok' },
      { name: 'ports', status: 'ok', message: expect.stringMatching(/^free: management 127\.0\.0\.1:0, mcp /) },
      { name: 'registry folder', message: expect.stringContaining(`${folder} is writable`) },
    ]);
    const taken = modelUrl.replace('http://', '');
    expect(await start({ ...ports, SERVICE_MCP_LISTEN: taken })).toMatchObject([
      { name: 'configuration', status: 'ok' },
      { name: 'ports', status: 'failed', message: expect.stringContaining(`mcp ${taken} is in use by `) },
      { name: 'registry folder' },
    ]);
    expect(await start({ ...ports, SERVICE_MAX_SUBSCRIPTIONS: 'many' })).toMatchObject([
      {
        name: 'configuration',
        status: 'failed',
        message: expect.stringMatching(/^SERVICE_MAX_SUBSCRIPTIONS: "many" /),
      },
    ]);
    await writeFile(join(folder, 'broken.yaml'), 'forward: []');
    expect(await start(ports, '--service-config', 'broken.yaml')).toMatchObject([
      { name: 'configuration', status: 'failed', message: expect.stringContaining('forward is not a known field') },
    ]);
  });

  it('checks no start when a proxy rejects the request, or when the service is elsewhere', async () => {
    const proxy = createServer((_request, response) => void response.writeHead(401).end());
    const port = await listen(proxy, 0);
    for (const host of [`http://127.0.0.1:${port}`, 'http://sluice.invalid:8080']) {
      const { code, out } = await sluice('--host', host, 'doctor', '-o', 'json', '--mcp-url', service.mcp);
      const checks: unknown = JSON.parse(out);
      expect([
        code,
        z
          .array(diagnosticCheck)
          .parse(checks)
          .map(({ name }) => name),
      ]).toEqual([1, ['command line', 'management API', 'MCP listener']]);
    }
    proxy.close();
  });

  it('exits with 0 when nothing must be fixed', async () => {
    const healthy = await startTestService({ SERVICE_INFERENCE_UPSTREAM: modelUrl.replace('http://', '') });
    const clock = new Date(Date.now()).toUTCString();
    model.removeAllListeners('request').on('request', (_request, response) => {
      response.writeHead(404, { date: clock }).end();
    });
    const { code, out } = await sluice('--host', healthy.management, 'doctor', '--mcp-url', healthy.mcp);
    await healthy.stop();
    expect({ code, out }).toEqual({ code: 0, out: expect.stringMatching(/^clock +ok /m) });
  });
});

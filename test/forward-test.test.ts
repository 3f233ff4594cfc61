import { createServer } from 'node:http';
import { forwardTest } from '@sluice/contract';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { run } from '../packages/cli/src/run.ts';
import { scriptedTerminal } from '../packages/cli/src/testing/scripted-terminal.ts';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';
import { listen } from './fixtures/http-server.ts';
import { toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from './fixtures/raw-upstream.ts';

const SECRET = 'correct-horse-battery-staple';
const HEADERS = { authorization: `Bearer \${env:SERVICE_SECRET_CRM}` };

let upstream: RawUpstream;
let service: TestService;

beforeAll(async () => {
  const names = ['alpha', 'beta', 'gamma', 'delta', 'epsilon', 'zeta'];
  upstream = await startRawUpstream({ scripts: { 'tools/list': toolList(...names.map((name) => toolText(name))) } });
  service = await startTestService({ SERVICE_SECRET_CRM: SECRET });
  await service.register('forwards', { name: 'crm', address: upstream.url, headers: HEADERS });
  await service.register('forwards', { name: 'down', address: `http://127.0.0.1:9/mcp?key=${SECRET}` });
});
afterAll(async () => {
  await service.stop();
  await upstream.close();
});

async function sluice(...argv: string[]): Promise<{ code: number; out: string; err: string }> {
  const terminal = scriptedTerminal();
  const code = await run(['--no-auth', '--host', service.management, ...argv], terminal);
  return { code, out: terminal.out(), err: terminal.err() };
}

async function test(body: object) {
  const { data } = await service.manage('POST', '/forwards/test', body);
  return forwardTest.parse(data);
}

async function rejection(body: object): Promise<unknown> {
  const response = await fetch(`${service.management}/api/v1/forwards/test`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  return response.json();
}

describe('a test of a forward', () => {
  it('has all steps of a forward that works, and closes its sessions', async () => {
    const [open, calls] = [upstream.sessions(), upstream.count('tools/call')];
    const { ok, address, steps } = await test({ name: 'crm' });
    expect([ok, address]).toEqual([true, upstream.url]);
    expect(steps.map(({ step, status }) => [step, status])).toEqual([
      ['resolve', 'skipped'],
      ['proxy', 'ok'],
      ['connect', 'ok'],
      ['tls', 'skipped'],
      ['http', 'ok'],
      ['era', 'ok'],
      ['session', 'ok'],
      ['lists', 'ok'],
      ['ping', 'ok'],
    ]);
    const found = Object.fromEntries(steps.map(({ step, ...rest }) => [step, rest]));
    expect(found).toMatchObject({
      http: {
        sent: expect.stringMatching(/^POST .*\(with the headers authorization\)$/),
        received: expect.stringMatching(/^HTTP 200 OK, application\/json: /),
      },
      era: { message: 'legacy: 2025-11-25; modern: 2026-07-28' },
      session: { message: 'raw 1, a session id, tools, resources, prompts' },
      lists: {
        message: expect.stringContaining('legacy: 6 tools, 0 resources'),
        received: 'tools: alpha, beta, gamma, delta, epsilon, …',
      },
      ping: { sent: expect.stringContaining('"method":"ping"') },
    });
    expect(upstream.sessions()).toBe(open);
    expect(upstream.count('tools/call')).toBe(calls);
  });

  it('stops at the step that fails, with the message of the forward', async () => {
    const { ok, steps } = await test({ name: 'down' });
    expect(ok).toBe(false);
    const failed = steps.find(({ status }) => status === 'failed');
    expect(failed).toMatchObject({ step: 'connect', message: expect.stringContaining('refused the connection') });
    expect(steps.slice(3).every(({ status }) => status === 'skipped')).toBe(true);
    const { data } = await service.manage('GET', '/forwards/down');
    expect(data).toMatchObject({ statusMessage: expect.stringContaining(`${failed?.message};`) });
  });

  it('contains neither secrets nor the query, although the upstream repeats them', async () => {
    const echo = createServer((request, response) => {
      response.writeHead(404, { 'content-type': 'text/plain', 'x-auth': request.headers.authorization });
      response.end(`no ${request.url}, ${request.headers.authorization}`);
    });
    const port = await listen(echo, 0);
    onTestFinished(() => void echo.close());
    const result = await test({ address: `http://127.0.0.1:${port}/mcp?key=hidden-key`, headers: HEADERS });
    const text = JSON.stringify(result);
    expect(text).toContain('HTTP 404 Not Found');
    expect(text).not.toContain(SECRET);
    expect(text).not.toContain('hidden-key');
    for (const { sent = '', received = '' } of result.steps) {
      expect(Math.max(Buffer.byteLength(sent), Buffer.byteLength(received))).toBeLessThanOrEqual(512);
    }
  });

  it('names the redirects that were followed', async () => {
    const { port } = upstream;
    const redirecting = createServer((_request, response) => {
      response.writeHead(307, { location: `http://127.0.0.1:${port}/mcp` }).end();
    });
    const own = await listen(redirecting, 0);
    onTestFinished(() => void redirecting.close());
    const { steps } = await test({ address: `http://127.0.0.1:${own}/mcp` });
    expect(steps.find(({ step }) => step === 'http')).toMatchObject({
      status: 'failed',
      message: expect.stringContaining(`redirects to http://127.0.0.1:${port}/mcp (HTTP 307)`),
      remedy: 'another origin is not followed: register the target address',
    });
  });

  it('runs once at a time', async () => {
    const waiting = Promise.withResolvers<void>();
    const slow = createServer(async (_request, response) => {
      await waiting.promise;
      response.writeHead(404).end();
    });
    const port = await listen(slow, 0);
    onTestFinished(() => void slow.close());
    const body = { address: `http://127.0.0.1:${port}/mcp` };
    const start = () => rejection(body);
    const both = [start(), start()];
    expect(await Promise.race(both)).toMatchObject({ error: { code: 'UNAVAILABLE' } });
    waiting.resolve();
    await Promise.all(both);
  });

  it('rejects what a forward could not have', async () => {
    for (const [body, message] of [
      [{}, 'address or name is required'],
      [{ name: 'crm', address: 'http://localhost:3000/mcp' }, 'address cannot be combined with name'],
      [{ name: 'crm', proxy: 'none' }, 'name cannot be combined with headers or proxy'],
      [{ name: 'none' }, 'forward not found: none'],
      [{ address: 'localhost:3000' }, 'must be a URL such as http://127.0.0.1:3001/mcp'],
      [{ address: 'ftp://localhost' }, 'must be an http or https URL'],
      [{ address: upstream.url, headers: { authorization: 'Bearer x' } }, 'must contain a reference'],
    ] as const) {
      const expected = { error: { message: expect.stringContaining(message) } };
      expect(await rejection(body), JSON.stringify(body)).toMatchObject(expected);
    }
  });
});

describe('sluice forwards test', () => {
  it('prints the steps of a forward', async () => {
    const { code, out, err } = await sluice('forwards', 'test', 'crm');
    expect([code, err]).toEqual([0, '']);
    expect(out).toMatch(/^STEP +STATUS +MS +RESULT$/m);
    expect(out).toMatch(/^tls +skipped +- +http:/m);
    expect(out).toMatch(/^era +ok +[\d.]+ +legacy: 2025-11-25; modern: 2026-07-28$/m);
  });

  it('prints the whole message of the failed step, and exits with 1', async () => {
    const page = createServer((_request, response) => {
      response.writeHead(401, { 'content-type': 'application/json' }).end('{"error":"invalid_token"}');
    });
    const port = await listen(page, 0);
    onTestFinished(() => void page.close());
    const { code, out } = await sluice('forwards', 'test', `http://127.0.0.1:${port}/mcp`);
    expect(code).toBe(1);
    expect(out).toMatch(/^http +ok +[\d.]+ +HTTP 401 Unauthorized, application\/json: /m);
    expect(out).toMatch(
      /^era: upstream \S+ answered initialize with HTTP 401, application\/json: "invalid_token"; set its credentials in "headers" of the forward$/m,
    );
    const json = await sluice('forwards', 'test', `http://127.0.0.1:${port}/mcp`, '-o', 'json');
    expect([json.code, forwardTest.parse(JSON.parse(json.out)).ok]).toEqual([1, false]);
  });

  it('accepts options of a URL only for a URL', async () => {
    const { code, err } = await sluice('forwards', 'test', 'crm', '--proxy', 'none');
    expect([code, err]).toEqual([1, expect.stringContaining('--header and --proxy are for a URL')]);
  });
});

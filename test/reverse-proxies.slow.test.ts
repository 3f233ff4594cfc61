import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { type Browser, chromium } from 'playwright-core';
import { Agent } from 'undici';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';
import { type Streamer, startStreamer } from '../packages/server/testing/streamer.ts';
import { BROWSER_ARGUMENTS, findBrowser } from './fixtures/browser.ts';
import { settled } from './fixtures/console.ts';
import type { Era } from './fixtures/raw-upstream/message.ts';
import { textResultText, toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from './fixtures/raw-upstream.ts';
import type { Program } from './login/program.ts';
import { callTool, listTools, type PlainResponse, type Route, send as sendTo } from './login/requests.ts';
import {
  createCertificate,
  PUBLIC_NAME,
  REVERSE_PROXIES,
  type ReverseProxy,
  startReverseProxy,
} from './operations/reverse-proxies.ts';

// The configurations of deploy/reverse-proxies, each with the real program in front of a service. Only addresses and paths
// differ.

const MIB = 1024 * 1024;
const LARGE = 'x'.repeat(3 * MIB);
const HUGE = 'y'.repeat(12 * MIB);
const LOOPBACK = [{ address: '127.0.0.1', family: 4 }];

let folder: string;
let ca: string;
let service: TestService;
let upstream: RawUpstream;
let streamer: Streamer;
let browser: Browser | undefined;
/** Leads to the proxy at the loopback interface under its public name. */
let through: Route;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-proxies-'));
  ca = await createCertificate(folder);
  through = { hostname: '127.0.0.1', servername: PUBLIC_NAME, ca };
  upstream = await startRawUpstream({
    scripts: {
      'tools/list': toolList(toolText('greet'), toolText('measure'), toolText('fill')),
      'tools/call': ({ params, body }) => {
        if (params.name === 'measure') return textResultText(String(body.length));
        return textResultText(params.name === 'fill' ? HUGE : 'hello');
      },
    },
  });
  streamer = await startStreamer();
  service = await startTestService({
    SERVICE_ALLOWED_HOSTS: PUBLIC_NAME,
    SERVICE_AUTH_ISSUER: 'https://login.example.com/realms/sluice',
  });
  await service.register('forwards', { name: 'greeter', address: upstream.url });
  await service.register('forwards', { name: 'streamer', address: streamer.url, namespace: 'streams' });
  const executablePath = findBrowser();
  if (executablePath === undefined) return;
  const args = [`--host-resolver-rules=MAP ${PUBLIC_NAME} 127.0.0.1`, '--ignore-certificate-errors'];
  browser = await chromium.launch({ executablePath, args: [...BROWSER_ARGUMENTS, ...args] });
});
afterAll(async () => {
  await browser?.close();
  await service.stop();
  await upstream.close();
  await streamer.close();
  await rm(folder, { recursive: true });
});

describe.each(REVERSE_PROXIES)('$name', (proxy: ReverseProxy) => {
  describe.runIf(existsSync(proxy.program))('in front of the service', () => {
    let program: Program;
    let port: number;
    let origin: string;
    let dispatcher: Agent;

    const send = (
      method: string,
      path: string,
      headers: Readonly<Record<string, string>> = {},
      body = '',
      at: number = port,
    ): Promise<PlainResponse> => sendTo(`https://${PUBLIC_NAME}:${at}`, method, path, headers, body, through);

    beforeAll(async () => {
      const isReady = async (at: number) =>
        (await send('GET', '/console/healthz', {}, '', at).catch(() => undefined))?.status === 200;
      ({ program, port } = await startReverseProxy(proxy, {
        folder,
        mcp: service.mcp,
        management: service.management,
        isReady,
      }));
      origin = `https://${PUBLIC_NAME}:${port}`;
      dispatcher = new Agent({ connect: { ca, lookup: (_name, _options, done) => done(null, LOOPBACK) } });
    });
    afterAll(async () => {
      await dispatcher?.destroy();
      await program?.stop();
    });

    const connect = async (namespace: string, era: Era, onChange?: () => void) => {
      const options = onChange ? { listChanged: { tools: { onChanged: onChange } } } : {};
      const client = new Client(
        { name: 'c', version: '1' },
        {
          versionNegotiation: { mode: era === 'modern' ? { pin: '2026-07-28' } : 'legacy' },
          ...options,
        },
      );
      const transport = new StreamableHTTPClientTransport(new URL(`${origin}/${namespace}/mcp`), {
        fetch: (input, init) => fetch(input, { ...init, dispatcher }),
      });
      await client.connect(transport);
      return client;
    };

    it.each(['legacy', 'modern'] as const)('a %s client lists and calls tools', async (era) => {
      const client = await connect('default', era);
      expect((await client.listTools()).tools.map(({ name }) => name)).toContain('greet');
      expect(await client.callTool({ name: 'greet', arguments: {} })).toMatchObject({ content: [{ text: 'hello' }] });
      await client.close();
    });

    it('bodies of several megabytes pass in both directions, and those beyond the limit get its error', async () => {
      const client = await connect('default', 'modern');
      const measured = await client.callTool({ name: 'measure', arguments: { text: LARGE } });
      expect(Number(Object(measured.content[0]).text)).toBeGreaterThan(LARGE.length);
      const filled = await client.callTool({ name: 'fill', arguments: {} });
      expect(Object(filled.content[0]).text === HUGE).toBe(true);
      await client.close();
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping', params: { text: LARGE + LARGE } });
      const { status, text } = await send('POST', '/default/mcp', { 'content-type': 'application/json' }, body);
      expect([status, text]).toEqual([413, expect.stringContaining('"jsonrpc"')]);
    });

    it('events of a stream arrive one by one, and a call ends when its client disconnects', async () => {
      const client = await connect('streams', 'modern');
      const received: number[] = [];
      const onprogress = ({ progress }: { progress: number }) => received.push(progress);
      const arriving = streamer.next();
      const result = client.callTool({ name: 'work', arguments: {} }, { onprogress });
      const call = await arriving;
      call.begin();
      for (const value of [1, 2, 3]) {
        call.progress(value);
        await expect.poll(() => received.at(-1)).toBe(value);
      }
      call.end('done');
      expect(await result).toMatchObject({ content: [{ text: 'done' }] });

      const next = streamer.next();
      const abort = new AbortController();
      const canceled = client.callTool({ name: 'work', arguments: {} }, { signal: abort.signal });
      const open = await next;
      open.begin();
      abort.abort();
      await expect(canceled).rejects.toThrow();
      await expect.poll(() => open.isDisconnected).toBe(true);
      await client.close();
    });

    it('a client learns of changes on its stream of notifications', async () => {
      let changes = 0;
      const client = await connect('default', 'legacy', () => {
        changes += 1;
      });
      const tool = { name: `added-${port}`, description: '', uri: 'x:y', toolType: 't', input_schema: {} };
      // The client opens its stream in the background, so the first change may come too early.
      const change = async () => {
        await service.register('tools', tool);
        await service.manage('DELETE', `/tools/${tool.name}`);
        return changes;
      };
      await expect.poll(change, { interval: 500 }).toBeGreaterThan(0);
      await client.close();
    });

    it('the service sees the public address, and no identity that a client claims', async () => {
      const metadata = await send('GET', '/.well-known/oauth-protected-resource/default/mcp');
      expect(JSON.parse(metadata.text)).toMatchObject({ resource: `${origin}/default/mcp` });
      const forged = { 'x-forwarded-user': 'alice', 'x-auth-request-user': 'alice' };
      expect((await callTool(origin, '/default/mcp', forged, through)).status).toBe(200);
      const { data } = await service.manage('GET', '/tool-calls');
      expect(Array.isArray(data) && data[0]).toMatchObject({ toolName: 'greet' });
      expect(JSON.stringify(data)).not.toContain('alice');
    });

    it('other hosts and origins are rejected', async () => {
      for (const host of ['evil.example', `evil.example:${port}`, `${PUBLIC_NAME}.evil.example`]) {
        const { status, text } = await listTools(origin, '/default/mcp', { host }, through);
        expect(text, host).not.toContain('"greet"');
        expect(status === 421 || status === 403 || text === '', `${host}: ${status}`).toBe(true);
      }
      const statusOf = async (value: string) =>
        (await listTools(origin, '/default/mcp', { origin: value }, through)).status;
      expect(await statusOf('https://evil.example')).toBe(403);
      expect(await statusOf(`https://${PUBLIC_NAME}.evil.example:${port}`)).toBe(403);
      expect(await statusOf(origin)).toBe(200);
    });

    it('HTTP/2 works for clients that support it', async () => {
      const options = ['--silent', '--http2', '--cacert', join(folder, 'fullchain.pem')];
      const resolve = ['--resolve', `${PUBLIC_NAME}:${port}:127.0.0.1`, '--write-out', '%{http_version} %{http_code}'];
      const url = `${origin}/.well-known/oauth-protected-resource/default/mcp`;
      const { stdout } = await promisify(execFile)('curl', [...options, ...resolve, url]);
      expect(stdout).toMatch(/"resource":"https:\/\/sluice\.example\.com:\d+\/default\/mcp".*2 200$/s);
    });

    it.runIf(findBrowser() !== undefined)('the console works below its path, with live events', async () => {
      expect(await send('GET', '/console/')).toMatchObject({ status: 301, headers: { location: 'admin/' } });
      const page = await browser?.newPage();
      if (!page) throw new Error('the browser is missing');
      const failed: string[] = [];
      page.on('response', (response) => {
        if (response.status() >= 400) failed.push(`${response.status()} ${response.url()}`);
      });
      await page.goto(`${origin}/console/`);
      expect(page.url()).toContain(`${origin}/console/admin/`);
      await page.goto(`${origin}/console/admin/#/tools`);
      await settled(page);
      await page.getByText('greet', { exact: true }).first().waitFor();
      // Only the event stream tells the page of a new tool.
      const tool = { name: `new-${port}`, description: '', uri: 'x:y', toolType: 't', input_schema: {} };
      await service.register('tools', tool);
      await page.getByText(tool.name, { exact: true }).first().waitFor();
      await page.close();
      await service.manage('DELETE', `/tools/${tool.name}`);
      expect(failed).toEqual([]);
    });
  });
});

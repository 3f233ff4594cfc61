import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ENVIRONMENT } from '../../../../test/fixtures/environment.ts';
import { freePort } from '../../../../test/fixtures/free-port.ts';
import { type Gateway, startGateway } from '../../../../test/fixtures/gateway.ts';
import { legacyClient, modernClient, post, reply } from '../../../../test/fixtures/raw-client.ts';
import { textResultText, toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from '../../../../test/fixtures/raw-upstream.ts';
import { startTestService } from '../../testing/service.ts';
import { startStreamer } from '../../testing/streamer.ts';
import { ConfigError } from '../http/settings.ts';
import { StoreError } from '../registry/store/store.ts';

const MAIN = join(import.meta.dirname, '..', 'main.ts');

let folder: string;
const closers: (() => unknown)[] = [];
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-service-'));
});
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
  await rm(folder, { recursive: true, force: true });
});

function until<T extends { close(): unknown }>(part: T): T {
  closers.push(() => part.close());
  return part;
}

/** Runs the process in the test's folder until it exits. */
async function run(env: Record<string, string> = {}, args: readonly string[] = []) {
  const child: ChildProcess = spawn(process.execPath, [MAIN, ...args], {
    cwd: folder,
    env: {
      ...ENVIRONMENT,
      HOME: folder,
      SERVICE_MGMT_LISTEN: '127.0.0.1:0',
      SERVICE_MCP_LISTEN: '127.0.0.1:0',
      SERVICE_INFERENCE_LISTEN: '127.0.0.1:0',
      SERVICE_PERSIST_PATH: join(folder, 'registry'),
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  closers.push(() => child.kill('SIGKILL'));
  let stdout = '';
  let stderr = '';
  child.stdout?.on('data', (chunk) => {
    stdout += chunk;
  });
  child.stderr?.on('data', (chunk) => {
    stderr += chunk;
  });
  const [code] = await once(child, 'close');
  return { code, stdout, stderr };
}

/** Occupies a port. */
async function occupied(): Promise<{ server: Server; address: string }> {
  const port = await freePort();
  const server = createServer();
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  closers.push(() => server.close());
  return { server, address: `127.0.0.1:${port}` };
}

describe('a failed startup', () => {
  const oneLine = (stderr: string, ...parts: string[]) => {
    expect(stderr.trimEnd().split('\n')).toHaveLength(1);
    for (const part of parts) expect(stderr).toContain(part);
  };

  it.each([
    ['SERVICE_MCP_LISTEN', 'nonsense'],
    ['SERVICE_SESSION_KEY', 'too short to be a key'],
  ])('exits with code 1 and a one-line error that names %s', async (name, value) => {
    const { code, stdout, stderr } = await run({ [name]: value });
    expect([code, stdout]).toEqual([1, '']);
    oneLine(stderr, name);
    if (name === 'SERVICE_SESSION_KEY') expect(stderr).not.toContain(value);
  });

  it.each([
    ['an unknown flag', ['--no-such'], '--no-such'],
    ['a pipeline file', ['--pipeline-config', 'p.yaml'], '--pipeline-config'],
  ])('names %s', { tags: ['slow'] }, async (_what, args, named) => {
    const { code, stderr } = await run({}, args);
    expect(code).toBe(1);
    oneLine(stderr, named);
  });

  it('names SERVICE_MCP_LISTEN if its port is in use', { tags: ['slow'] }, async () => {
    const { address } = await occupied();
    const { code, stderr } = await run({ SERVICE_MCP_LISTEN: address });
    expect(code).toBe(1);
    oneLine(stderr, 'SERVICE_MCP_LISTEN', address, 'EADDRINUSE');
  });

  it.each(['registry.json', 'records.snapshot', 'session.key'])(
    'names %s if it is corrupt',
    { tags: ['slow'] },
    async (file) => {
      const env = { SERVICE_PERSIST_BACKEND: 'file', SERVICE_PERSIST_PATH: join(folder, 'registry') };
      const service = await startTestService(env);
      await service.register('namespaces', { name: 'n' });
      await service.stop();
      await writeFile(join(folder, 'registry', file), '{"version":1,');
      // Such errors are printed without a stack.
      const error: unknown = await startTestService(env).catch((reason) => reason);
      expect([StoreError, ConfigError].some((type) => error instanceof type)).toBe(true);
      oneLine(String(error), file);
    },
  );

  it('does not prevent the next startup', { tags: ['slow'] }, async () => {
    const { server, address } = await occupied();
    const env = { SERVICE_PERSIST_BACKEND: 'file', SERVICE_PERSIST_PATH: join(folder, 'registry') };
    for (const name of ['SERVICE_MGMT_LISTEN', 'SERVICE_MCP_LISTEN']) {
      await expect(startTestService({ ...env, [name]: address })).rejects.toThrow(name);
    }
    server.close();
    const service = await startTestService({ ...env, SERVICE_MCP_LISTEN: address });
    expect((await post(service.url(), '{"jsonrpc":"2.0","id":1,"method":"ping"}')).status).toBe(200);
    await service.stop();
  });

  it('names the registry folder if another process uses it, and does not affect that process', async () => {
    const env = { SERVICE_PERSIST_BACKEND: 'file', SERVICE_PERSIST_PATH: join(folder, 'registry') };
    const first = await startTestService(env);
    const { code, stderr } = await run();
    expect(code).toBe(1);
    oneLine(stderr, join(folder, 'registry'));
    await first.register('namespaces', { name: 'still-writable' });
    await first.stop();
  });
});

describe('a startup', () => {
  it('names the console and the endpoint in one line of standard output, each time', async () => {
    const env = { ...ENVIRONMENT, SERVICE_PERSIST_PATH: join(folder, 'registry'), SERVICE_UI_PATH: folder };
    for (let start = 1; start <= 2; start++) {
      const child = spawn(process.execPath, [MAIN, '--local', '--port=0'], { cwd: folder, env });
      closers.push(() => child.kill('SIGKILL'));
      const [line] = await once(createInterface(child.stdout), 'line');
      const [, management, mcp] =
        /^Sluice is running: console (http:\S+)\/admin\/, MCP (http:\S+\/default\/mcp)$/.exec(line) ?? [];
      expect((await fetch(`${management}/readyz`)).status).toBe(200);
      expect((await post(mcp ?? '', '{"jsonrpc":"2.0","id":1,"method":"ping"}')).status).toBe(200);
      child.kill('SIGTERM');
      expect(await once(child, 'exit')).toEqual([0, null]);
    }
  });

  it('logs JSON to a pipe, or text with --log-format', { tags: ['slow'] }, async () => {
    const env = { ...ENVIRONMENT, SERVICE_PERSIST_BACKEND: 'none', RUST_LOG: 'info' };
    for (const [flags, pattern] of [
      [[], /^\{"ts":"\S+Z","level":"info","target":"service","msg":"started",/],
      [['--log-format', 'text'], /^\d\d:\d\d:\d\d INFO {2}service {3}started version=/],
    ] as const) {
      const child = spawn(process.execPath, [MAIN, '--local', '--port=0', ...flags], { cwd: folder, env });
      closers.push(() => child.kill('SIGKILL'));
      const [line] = await once(createInterface(child.stderr), 'line');
      expect(line).toMatch(pattern);
      child.kill('SIGTERM');
      await once(child, 'exit');
    }
  });

  it.each(['--help', '--version'])('does not happen with %s', { tags: ['slow'] }, async (flag) => {
    const { code, stdout, stderr } = await run({ SERVICE_MCP_LISTEN: 'nonsense' }, [flag]);
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout.length).toBeGreaterThan(3);
    await expect(stat(join(folder, 'registry'))).rejects.toThrow('ENOENT');
  });
});

describe('shutdown', () => {
  /** A gateway process with a call in flight. */
  async function busy() {
    const upstream = until(await startStreamer());
    const gateway: Gateway = until(await startGateway());
    await gateway.forward('up', upstream.url);
    const arrived = upstream.next();
    const answer = modernClient(gateway.url()).call('tools/call', '{"name":"work","arguments":{}}');
    const call = await arrived;
    call.begin();
    return { gateway, call, answer };
  }

  it('waits for in-flight calls, is not ready meanwhile, accepts no new ones, and exits with code 0', async () => {
    const { gateway, call, answer } = await busy();
    const { pid } = gateway;
    const ended = gateway.stop();
    const ready = async () => (await fetch(`http://${gateway.management()}/readyz`)).status;
    await expect.poll(ready).toBe(503);
    expect((await fetch(`http://${gateway.management()}/healthz`)).status).toBe(200);
    await expect(post(gateway.url(), '{"jsonrpc":"2.0","id":1,"method":"ping"}')).rejects.toThrow('ECONNREFUSED');
    expect(pid()).toBeUndefined();
    call.end('in time');
    expect(reply(await answer)).toContain('in time');
    expect(await ended).toBe(0);
    const stored = JSON.parse(await readFile(join(gateway.folder, 'registry.json'), 'utf8'));
    expect(stored.forwards).toEqual([expect.objectContaining({ name: 'up' })]);
    await expect(stat(join(gateway.folder, 'registry.lock'))).rejects.toThrow('ENOENT');
  });

  it.each(['SIGTERM', 'SIGINT'] as const)(
    'exits at once with code 1 at a second %s',
    { tags: ['slow'] },
    async (signal) => {
      const { gateway, answer } = await busy();
      const pid = gateway.pid();
      if (pid === undefined) throw new Error('no process');
      const lost = expect(answer).rejects.toThrow();
      const ended = gateway.stop();
      await expect.poll(() => gateway.logs.some(({ msg }) => msg === 'stopping')).toBe(true);
      process.kill(pid, signal);
      expect(await ended).toBe(1);
      await lost;
    },
  );

  it('is immediate without in-flight requests, even with idle connections', { tags: ['slow'] }, async () => {
    const gateway = until(await startGateway());
    await fetch(gateway.url(), { method: 'POST', body: '{"jsonrpc":"2.0","id":1,"method":"ping"}' }).then((response) =>
      response.text(),
    );
    const before = performance.now();
    expect(await gateway.stop()).toBe(0);
    expect(performance.now() - before).toBeLessThan(20_000);
  });

  it('answers and aborts requests that exceed the timeout', { tags: ['slow'] }, async () => {
    const upstream = until(await startStreamer());
    const service = await startTestService();
    await service.register('forwards', { name: 'up', address: upstream.url });
    const arrived = upstream.next();
    const response = modernClient(service.url()).call('tools/call', '{"name":"work","arguments":{}}');
    const call = await arrived;
    call.begin();
    await service.stop(200);
    expect((await response).text).toContain('service is shutting down');
    await expect.poll(() => call.isDisconnected).toBe(true);
  });

  it('does not wait for a call whose legacy client has disconnected', async () => {
    const upstream = until(await startStreamer());
    const service = await startTestService();
    await service.register('forwards', { name: 'up', address: upstream.url });
    const arrived = upstream.next();
    const leave = new AbortController();
    const response = fetch(service.url(), {
      method: 'POST',
      signal: leave.signal,
      body: '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"work"}}',
    });
    const call = await arrived;
    leave.abort();
    await expect(response).rejects.toThrow();
    const before = performance.now();
    await service.stop(200);
    expect(performance.now() - before).toBeLessThan(20_000);
    await expect.poll(() => call.isDisconnected).toBe(true);
  });

  it('ends its upstream sessions', { tags: ['slow'] }, async () => {
    const upstream = until(await startRawUpstream({ eras: ['legacy'], scripts: upstreamScripts('one') }));
    const service = await startTestService();
    await service.register('forwards', { name: 'up', address: upstream.url });
    await (await legacyClient(service.url())).call('tools/call', '{"name":"one"}');
    expect(upstream.sessions()).toBeGreaterThan(0);
    await service.stop();
    expect(upstream.sessions()).toBe(0);
  });
});

function upstreamScripts(name: string) {
  return { 'tools/list': toolList(toolText(name)), 'tools/call': textResultText(name) };
}

describe('the bootstrap file', () => {
  let one: RawUpstream;
  let two: RawUpstream;
  let env: Record<string, string>;
  beforeEach(async () => {
    one = until(await startRawUpstream({ scripts: upstreamScripts('one') }));
    two = until(await startRawUpstream({ scripts: upstreamScripts('two') }));
    env = { SERVICE_PERSIST_BACKEND: 'file', SERVICE_PERSIST_PATH: join(folder, 'registry') };
  });

  async function start(content: unknown) {
    const file = join(folder, 'bootstrap.json');
    await writeFile(file, JSON.stringify(content));
    const service = await startTestService(env, ['--service-config', file]);
    let running = true;
    const stop = async () => {
      if (running) await service.stop();
      running = false;
    };
    closers.push(stop);
    return { ...service, stop };
  }

  it('registers forwards and namespaces and discovers them in the background', async () => {
    const service = await start({
      forwards: [
        { name: 'a', address: one.url, labels: { team: 'x' }, prefix: 'p-' },
        { name: 'unreachable', address: 'http://127.0.0.1:9/mcp', namespace: 'finance' },
        { name: 'broken', address: 'ftp://nowhere' },
      ],
      namespaces: ['plain', { name: 'labeled', labels: { k: 'v' } }],
    });
    const list = async () => reply(await modernClient(service.url()).call('tools/list'));
    await expect.poll(list).toContain('"name":"p-one"');
    const { data } = await service.manage('GET', '/forwards');
    expect(data).toEqual([
      expect.objectContaining({ name: 'a', labels: { team: 'x' }, prefix: 'p-', available: true }),
      expect.objectContaining({ name: 'unreachable', namespace: 'finance', available: false }),
    ]);
    expect(await service.manage('GET', '/namespaces/labeled')).toMatchObject({ data: { labels: { k: 'v' } } });
    expect((await service.manage('GET', '/namespaces/plain')).status).toBe(200);
  });

  it('does not change an equal forward, which serves its catalog even if its upstream is down', async () => {
    const content = { forwards: [{ name: 'a', address: one.url, labels: { b: '1', a: '2' } }] };
    const first = await start(content);
    await expect.poll(async () => reply(await modernClient(first.url()).call('tools/list'))).toContain('"name":"one"');
    const stored = { description: 'Mine.', uri: one.url, toolType: 'mcp-forward', input_schema: { type: 'object' } };
    expect((await first.manage('PUT', '/tools/one', stored)).status).toBe(200);
    await first.stop();
    await one.down();
    const again = await start({
      forwards: [{ labels: { a: '2', b: '1' }, address: one.url, name: 'a', namespace: 'default' }],
    });
    expect(reply(await modernClient(again.url()).call('tools/list'))).toContain('"description":"Mine."');
    expect(await again.manage('GET', '/forwards/a')).toMatchObject({ data: { available: false, tools_discovered: 1 } });
  });

  it.each([
    ['address', () => ({ address: two.url }), '"name":"two"'],
    ['prefix', () => ({ prefix: 'p-' }), '"name":"p-one"'],
    ['labels', () => ({ labels: { a: '1' } }), '"name":"one"'],
  ])('replaces a forward with another %s', { tags: ['slow'] }, async (_what, change, listed) => {
    const forward = { name: 'a', address: one.url };
    const first = await start({ forwards: [forward] });
    await expect.poll(async () => reply(await modernClient(first.url()).call('tools/list'))).toContain('"name":"one"');
    await first.stop();
    const changed = { ...forward, ...change() };
    const again = await start({ forwards: [changed] });
    await expect.poll(async () => reply(await modernClient(again.url()).call('tools/list'))).toContain(listed);
    const { tools } = JSON.parse(reply(await modernClient(again.url()).call('tools/list'))).result;
    expect(tools).toHaveLength(1);
    expect(await again.manage('GET', '/forwards/a')).toMatchObject({ data: changed });
  });

  it('moves a forward to another namespace', async () => {
    const first = await start({ forwards: [{ name: 'a', address: one.url }] });
    await expect.poll(async () => reply(await modernClient(first.url()).call('tools/list'))).toContain('"name":"one"');
    await first.stop();
    const again = await start({ forwards: [{ name: 'a', address: one.url, namespace: 'moved' }] });
    const list = async (namespace: string) => reply(await modernClient(again.url(namespace)).call('tools/list'));
    expect(await list('default')).toContain('"tools":[]');
    await expect.poll(() => list('moved')).toContain('"name":"one"');
  });

  it('does not change other entries', async () => {
    const first = await start({ namespaces: [{ name: 'n', labels: { k: 'v' } }] });
    await first.register('forwards', { name: 'by-hand', address: two.url });
    await first.stop();
    const again = await start({ namespaces: ['n'], forwards: [{ name: 'a', address: one.url }] });
    const { data } = await again.manage('GET', '/forwards');
    expect(data).toEqual([expect.objectContaining({ name: 'by-hand' }), expect.objectContaining({ name: 'a' })]);
    expect(await again.manage('GET', '/namespaces/n')).toMatchObject({ data: { labels: { k: 'v' } } });
  });
});

import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, describe, expect, it } from 'vitest';
import { freePort } from '../../../../../test/fixtures/free-port.ts';
import { type RawUpstreamOptions, startRawUpstream } from '../../../../../test/fixtures/raw-upstream.ts';
import { startTestService } from '../../../testing/service.ts';
import { createTransport } from '../../http/client/pool.ts';
import { EraCache, type ProbeStore } from './era-detection.ts';

const WAIT = { timeout: 20_000, interval: 20 };
const DAY_MS = 24 * 60 * 60_000;
const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

/** A server process that is started again whenever it has exited, as by a supervisor. */
class SupervisedServer {
  readonly port: number;
  broken = 0;
  readonly #reaction: string;
  #child: ChildProcess | undefined;
  #isStopped = false;

  constructor(port: number, reaction: string) {
    this.port = port;
    this.#reaction = reaction;
  }

  /** Starts a new process, which has received no message. */
  async start(): Promise<void> {
    const module = new URL('./fixtures/fragile-server.ts', import.meta.url);
    const child = fork(module, [String(this.port), this.#reaction], {
      execArgv: [],
      stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    });
    child.disconnect();
    this.#child = child;
    const { stdout } = child;
    if (!stdout) throw new Error('the process has no output');
    const listening = Promise.withResolvers<void>();
    createInterface(stdout).on('line', (line) => {
      if (line === 'broken') this.broken++;
      else listening.resolve();
    });
    child.once('exit', () => {
      if (this.#child === child && !this.#isStopped) void this.start();
    });
    await listening.promise;
  }

  async restart(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    await this.#end(child);
    await this.start();
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#end(this.#child);
  }

  async #end(child: ChildProcess | undefined): Promise<void> {
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  }
}

describe('a server that breaks on any first message but initialize', () => {
  it.each(['exits', 'stops listening', 'drops the connection'])('is broken once at most (%s)', async (reaction) => {
    const folder = await mkdtemp(join(tmpdir(), 'fragile-'));
    closers.push(() => rm(folder, { recursive: true }));
    const server = new SupervisedServer(await freePort(), reaction);
    closers.push(() => server.stop());
    await server.start();
    const start = async () => {
      const service = await startTestService({ SERVICE_PERSIST_BACKEND: 'file', SERVICE_PERSIST_PATH: folder });
      closers.push(() => service.stop(0));
      return service;
    };
    const first = await start();
    const forward = async () => (await first.manage('GET', '/forwards/fragile')).data;
    await first.register('forwards', { name: 'fragile', address: `http://127.0.0.1:${server.port}/mcp` });
    await expect.poll(forward, WAIT).toMatchObject({ available: true, tools_discovered: 1 });
    // None if `initialize` has arrived first.
    const { broken } = server;
    expect(broken).toBeLessThanOrEqual(1);
    // The snapshot, or the journal.
    const stored = async () => {
      const files = (await readdir(folder)).filter((name) => name.startsWith('registry.'));
      return (await Promise.all(files.map((name) => readFile(join(folder, name), 'utf8')))).join();
    };
    await expect.poll(async () => (await stored()).includes('modern_probe_after')).toBe(broken === 1);
    expect(JSON.stringify(await forward())).not.toContain('modern_probe');

    await server.restart();
    expect(await first.manage('POST', '/forwards/fragile/refreshes')).toMatchObject({ status: 200 });
    await first.stop(0);

    await server.restart();
    const second = await start();
    await expect
      .poll(async () => (await second.manage('GET', '/forwards/fragile')).data, WAIT)
      .toMatchObject({ available: true, tools_discovered: 1 });
    expect(server.broken).toBe(broken);
  });
});

/** A cache of the eras of a raw server, and what it has stored. */
async function startCache(options: RawUpstreamOptions, stored: Partial<ProbeStore> = {}) {
  const upstream = await startRawUpstream(options);
  closers.push(() => upstream.close());
  const transport = createTransport(upstream.url);
  closers.push(() => transport.destroy());
  const store = {
    modernProbeAfter: undefined as number | undefined,
    isKnownModern: false,
    ...stored,
    async setModernProbeAfter(time: number | undefined) {
      store.modernProbeAfter = time;
    },
  };
  const client = { transport, clientInfo: { name: 'sluice', version: '1' }, capabilities: {}, timeoutMs: 5_000 };
  return { upstream, store, cache: new EraCache(client, { hasLegacyClients: () => true, store, retryMs: 60_000 }) };
}

const CUT = { kind: 'cut' } as const;

describe('after a probe for the modern era that has broken the connection', () => {
  it('a server of both eras is used in the legacy one for a day', async () => {
    const { upstream, store, cache } = await startCache({ scripts: { 'server/discover': CUT } });
    await cache.probe();
    expect(store.modernProbeAfter).toBeGreaterThan(Date.now() + DAY_MS - 60_000);
    delete upstream.scripts['server/discover'];
    expect((await cache.probe()).modern).toBeUndefined();
    expect(upstream.count('server/discover')).toBe(1);
    store.modernProbeAfter = Date.now() - 1;
    expect((await cache.probe()).modern).toBeDefined();
    expect(store.modernProbeAfter).toBeUndefined();
  });

  it('the time that a wrong clock has stored counts as a day at most', async () => {
    const { cache } = await startCache({}, { modernProbeAfter: Number.MAX_SAFE_INTEGER });
    expect((await cache.probe()).modern).toBeUndefined();
  });

  it('a server that rejects initialize is probed for the modern era again, later if that breaks again', async () => {
    const { upstream, store, cache } = await startCache({ eras: ['modern'], scripts: { 'server/discover': CUT } });
    for (let round = 0; round < 4; round++) await expect(cache.probe()).rejects.toMatchObject({ kind: 'dropped' });
    expect(upstream.count('server/discover')).toBe(2);
    delete upstream.scripts['server/discover'];
    await expect(cache.probe()).rejects.toMatchObject({ kind: 'dropped' });
    const next = await startCache({ eras: ['modern'] }, { modernProbeAfter: store.modernProbeAfter });
    expect((await next.cache.probe()).modern).toBeDefined();
    expect(next.store.modernProbeAfter).toBeUndefined();
  });

  it('a server that is known to be modern is probed once more after initialize', async () => {
    const { upstream, store, cache } = await startCache(
      { scripts: { 'server/discover': CUT } },
      { isKnownModern: true },
    );
    expect((await cache.probe()).inconclusive).toMatchObject([{ era: 'modern', error: { kind: 'dropped' } }]);
    expect(store.modernProbeAfter).toBeUndefined();
    delete upstream.scripts['server/discover'];
    expect((await cache.probe()).modern).toBeDefined();
    upstream.scripts['server/discover'] = CUT;
    await cache.probe();
    await cache.probe();
    expect(store.modernProbeAfter).toBeDefined();
    expect((await cache.probe()).inconclusive).toEqual([]);
    expect(upstream.count('server/discover')).toBe(4);
  });

  it('nothing is sent but initialize while the server is down', async () => {
    const { upstream, store, cache } = await startCache({ scripts: { 'server/discover': CUT, initialize: CUT } });
    for (let round = 0; round < 3; round++) await expect(cache.probe()).rejects.toMatchObject({ kind: 'dropped' });
    expect([upstream.count('server/discover'), upstream.count('initialize')]).toEqual([1, 3]);
    expect(store.modernProbeAfter).toBeDefined();
  });
});

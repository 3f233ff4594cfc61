import { Emitter } from '@sluice/protocol/emitter';
import { type ClientCapabilities, NO_CAPABILITIES } from '@sluice/protocol/mcp/capabilities';
import type { Era } from '@sluice/protocol/mcp/constants';
import { SecretHeaders } from '../../http/secrets/secret-headers.ts';
import { KIND_OF_LIST } from '../../registry/catalogs.ts';
import type { Draft } from '../../registry/draft.ts';
import type { Forward, KnownCatalog } from '../../registry/entries.ts';
import type { Registry } from '../../registry/registry.ts';
import { storedTexts } from '../../registry/snapshot.ts';
import type { AnnouncedList, Discovery, ForwardConnection, UpstreamChange } from '../forward-connection.ts';
import type { UpstreamDeps, UpstreamKind } from '../upstream-kind.ts';
import { CatalogReader, type CatalogReading } from './catalog-reader.ts';
import { EraCache, type InconclusiveProbe, type ProbeStore } from './era-detection.ts';
import { testForward } from './forward-test/forward-test.ts';
import { HealthCheck } from './health-check.ts';
import { ListReads } from './list-reads.ts';
import { ListChangeWatcher, type ListChangeWatcherOptions, listsOf } from './streams/list-change-watcher.ts';
import { taskErasOf } from './task-support.ts';
import { secretOrigins, Upstream, type UpstreamEvent } from './upstream.ts';

export interface McpForwardOptions extends Omit<UpstreamDeps, 'operations'> {
  /** Milliseconds until the first retry of an inconclusive probe (default 60000); for tests. */
  readonly inconclusiveRetryMs?: number;
  /** For tests. */
  readonly watch?: Pick<ListChangeWatcherOptions, 'readyMs' | 'delays'>;
}

/** An MCP server that a forward reaches by Streamable HTTP. */
export class McpForwardConnection implements ForwardConnection {
  readonly changed = new Emitter<UpstreamChange>();
  readonly mcpUpstream: Upstream;
  readonly #closing = new AbortController();
  readonly #eras: EraCache;
  readonly #healthCheck: HealthCheck;
  readonly #watcher: ListChangeWatcher;
  readonly #reads = new ListReads();
  readonly #reader: CatalogReader;
  /** Eras that the last probe could not decide about. */
  #inconclusive: readonly InconclusiveProbe[] = [];
  /** Lists that the upstream declares in any era. */
  #lists: ReadonlySet<AnnouncedList> = new Set();
  /** Era of health checks: one in which the upstream responded last. */
  #healthCheckEra: Era = 'legacy';

  /** Sends nothing. */
  constructor(forward: Forward, options: McpForwardOptions) {
    const { registry, clientInfo, log, secrets } = options;
    const { headers, address, name, proxy, compression } = forward;
    this.mcpUpstream = new Upstream(address, {
      forward: name,
      headers: headers && new SecretHeaders(headers, secretOrigins(forward), secrets, log),
      shared: options.sharedSessions,
      http: { ...options.http, proxy, compression },
    });
    this.mcpUpstream.changed.subscribe((event) => this.#onChanged(event));
    const { signal } = this.#closing;
    const client = { transport: this.mcpUpstream.transport, clientInfo, signal };
    this.#reader = new CatalogReader({
      ...client,
      limits: options.catalogLimits,
      slicer: registry.slicer,
      reads: this.#reads,
      storedTexts: () => {
        const textOf = storedTexts(registry.current, name);
        return (list, key, json) => textOf(KIND_OF_LIST[list], key, json);
      },
    });
    const withoutCapabilities = { ...client, capabilities: NO_CAPABILITIES };
    const isKnownLegacy = forward.catalogs.some(({ era }) => era === 'legacy');
    this.#eras = new EraCache(withoutCapabilities, {
      hasLegacyClients: () => isKnownLegacy || options.hasLegacyClients(),
      store: probeStore(forward, registry),
      retryMs: options.inconclusiveRetryMs,
    });
    this.#healthCheck = new HealthCheck(withoutCapabilities, () =>
      this.mcpUpstream.changed.emit({ kind: 'session-lost' }),
    );
    this.#watcher = new ListChangeWatcher({ upstream: this.mcpUpstream, clientInfo, log, ...options.watch });
  }

  get address(): string {
    return this.mcpUpstream.transport.address;
  }

  get isAvailable(): boolean {
    return this.mcpUpstream.isAvailable;
  }

  set isAvailable(isAvailable: boolean) {
    this.mcpUpstream.isAvailable = isAvailable;
  }

  async discover(profiles: Iterable<ClientCapabilities>, probes: boolean): Promise<Discovery> {
    this.#reads.beginRun();
    try {
      const { legacy, modern, inconclusive } = await (probes ? this.#eras.probe() : this.#eras.open());
      this.#healthCheckEra = modern ? 'modern' : 'legacy';
      // Before the lists are read, so that no later change is missed.
      await this.#watcher.watch({ legacy, modern }, probes);
      const opened = [legacy, modern].filter((client) => client !== undefined);
      this.#lists = new Set(opened.flatMap(listsOf));
      const reading = await this.#reader.readAll(opened, profiles);
      const isSame = reading.isUnchanged && inconclusive === this.#inconclusive;
      return this.#discovery(reading, inconclusive, isSame);
    } finally {
      this.#reads.endRun();
    }
  }

  async discoverMissing(profiles: Iterable<ClientCapabilities>): Promise<Discovery | undefined> {
    const reading = await this.#reader.readMissing(profiles);
    return reading && this.#discovery(reading, this.#inconclusive, false);
  }

  #discovery(reading: CatalogReading, inconclusive: readonly InconclusiveProbe[], isUnchanged: boolean): Discovery {
    const { catalogs } = reading;
    return {
      catalogs,
      isUnchanged,
      notes: [...new Set(catalogs.flatMap(({ notes }) => notes))],
      undecided: inconclusive.map(({ era, error }) => {
        return { era, note: `entries of the ${era} era are retained because probing it failed: ${error.message}` };
      }),
      coversLegacy: this.#eras.legacyProbed,
      validMs: this.#eras.nextProbeInMs,
      accept: () => {
        this.#reader.accept(reading);
        this.#inconclusive = inconclusive;
      },
    };
  }

  onCatalogs(catalogs: readonly KnownCatalog[]): void {
    if (catalogs.length > 0) this.mcpUpstream.setEras(new Set(catalogs.map(({ era }) => era)));
    this.mcpUpstream.eras.tasks = taskErasOf(catalogs);
  }

  changesSilently(list?: AnnouncedList): boolean {
    if (list !== undefined) return this.#lists.has(list) && !this.#watcher.announces(list);
    return [...this.#lists].some((one) => !this.#watcher.announces(one));
  }

  checkHealth(): Promise<void> {
    return this.#healthCheck.run(this.#healthCheckEra);
  }

  pause(): void {
    this.#watcher.pause();
    void this.#healthCheck.close();
  }

  async close(graceMs?: number): Promise<void> {
    this.#closing.abort();
    this.#watcher.close();
    await Promise.all([this.#healthCheck.close(), this.mcpUpstream.close(graceMs)]);
  }

  #onChanged(event: UpstreamEvent): void {
    if (event.kind !== 'lists') return this.changed.emit(event);
    const notice = this.#reads.noticeOf(event.method);
    if (notice !== 'ahead') this.changed.emit({ kind: 'lists', isEcho: notice === 'echo' });
  }
}

/** Stores with the forward when it may be probed. */
function probeStore({ name, address, registrationId }: Forward, registry: Registry): ProbeStore {
  const stored = () => registry.current.forwards.get(name);
  return {
    get modernProbeAfter() {
      return stored()?.modernProbeAfter;
    },
    async setModernProbeAfter(time) {
      const store = (draft: Draft) => {
        const forward = draft.forwards.get(name);
        if (forward?.registrationId !== registrationId || forward.address !== address) return;
        draft.putForward({ ...forward, modernProbeAfter: time }, false);
      };
      const origin = { actor: 'discovery', reason: `probe forward ${name}` } as const;
      await registry.commit(store, origin).catch(() => undefined);
    },
    get isKnownModern() {
      return stored()?.catalogs.some(({ era }) => era === 'modern') ?? false;
    },
  };
}

/** MCP servers that are reached by Streamable HTTP. */
export const mcpHttp: UpstreamKind = {
  name: 'mcp',
  schemes: ['http:', 'https:'],
  validate: problemWith,
  connectionKey: ({ address, headers = {}, proxy, compression }) =>
    JSON.stringify([address, Object.entries(headers).sort(), proxy, compression]),
  origins: secretOrigins,
  open: (forward, deps) => new McpForwardConnection(forward, deps),
  test: (target, { registry: { slicer }, catalogLimits: limits, ...deps }) =>
    testForward(target, { ...deps, slicer, limits }),
};

/** Returns what is wrong with the address of a server. A valid one is used without normalization. */
function problemWith(address: string): string | undefined {
  const url = /^https?:\/\/[^/?#\s\\\p{Cc}][^\s\\\p{Cc}]*$/iu.test(address) ? URL.parse(address) : null;
  if (!url) return 'must be an http or https URL';
  // It is stored and returned.
  return url.username === '' && url.password === '' ? undefined : 'must not carry a user name or password';
}

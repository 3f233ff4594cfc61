import type { Replica as ReplicaBody } from '@sluice/contract';
import type { TokenSealer } from '@sluice/protocol/seal';
import type { z } from 'zod';
import { REPLICA_LISTENER } from '../exchange/exchange.ts';
import { formatAddress } from '../http/address.ts';
import { drainRequestBody } from '../http/collect-body.ts';
import { PEER_CLIENT, PEER_LISTENER, PEER_QUERIES, PeerClient, peerKey, peerServerTls } from '../http/peer-client.ts';
import { Peers, type QueryHandlers, serveQuery } from '../http/peers.ts';
import { namespaceSegment } from '../http/public-url.ts';
import type { HttpServer } from '../http/server/http1-server.ts';
import { createHttpServer } from '../http/server.ts';
import { fromPeer } from '../identity/peer.ts';
import type { InteractionStore } from '../inference/interaction-store.ts';
import { McpExchange, type McpFilter } from '../mcp/exchange.ts';
import { requestHandler } from '../mcp/listener.ts';
import { ConversationCache, conversationReader } from '../policy/llm/history.ts';
import { conversationQuery, OtherConversations } from '../policy/llm/other-conversations.ts';
import type { Registry } from '../registry/registry.ts';
import { Collection } from '../registry/store/collection.ts';
import { Database, type DatabaseSettings } from '../registry/store/postgres/database.ts';
import { ReplicatedLog } from '../registry/store/postgres/replicated-log.ts';
import type { Logger } from '../telemetry/log.ts';
import { RequestTelemetry } from '../telemetry/request-telemetry.ts';
import { VERSION } from '../telemetry/version.ts';
import { SharedUpstreamSessions } from '../upstreams/mcp/sessions/shared-sessions.ts';
import { SharedDiscovery } from '../upstreams/shared-discovery.ts';
import type { Config } from './config/config.ts';
import type { LoadedListener } from './config/pipeline/pipeline.ts';
import {
  type ChainParts,
  type ListenerChain,
  makeChain,
  type PipelineListenerOptions,
  READ_TIMEOUT_MS,
  servingOptions,
} from './pipeline.ts';
import { liveChain, type RoutingDeps, routeToOwner } from './replica-chain.ts';
import { untilReachable } from './waiting.ts';

/** Options of {@link Replica}. */
export interface ReplicaOptions {
  readonly database: DatabaseSettings;
  readonly config: Config;
  readonly interactions: InteractionStore;
  readonly logger: Logger;
}

/** What the service has in addition as one of several replicas (docs/replicas.md). Its module is loaded only then. */
export class Replica {
  /** What replicas share in PostgreSQL. */
  readonly shared: ReplicatedLog;
  /** Reads from the other replicas what only they have in memory. */
  readonly peers: Peers;
  readonly conversations: OtherConversations;
  readonly #options: ReplicaOptions;
  /** Undefined without a listener for replicas: then none reaches another one. */
  readonly #key: Buffer | undefined;
  readonly #client: PeerClient | undefined;

  private constructor(shared: ReplicatedLog, options: ReplicaOptions) {
    this.shared = shared;
    this.#options = options;
    const { config, interactions, logger } = options;
    this.#key = config.peerListen && config.sessionKey ? peerKey(config.sessionKey) : undefined;
    this.#client = this.#key && new PeerClient(this.#key);
    shared.members.left.subscribe(({ address }) => {
      // Its successor may have the same one.
      if (address !== null && !shared.members.addresses.includes(address)) this.#client?.disconnect(address);
    });
    this.peers = new Peers({
      client: this.#client,
      addresses: () => shared.members.others,
      log: logger.target('service'),
    });
    this.conversations = new OtherConversations(this.peers, interactions);
  }

  /** Opens the database as soon as it can be reached. */
  static async open(options: ReplicaOptions): Promise<Replica> {
    const log = options.logger.target('service::registry');
    const shared = new ReplicatedLog({ database: new Database({ ...options.database, log }), log, version: VERSION });
    await untilReachable(() => shared.open(), options.config, log);
    return new Replica(shared, options);
  }

  /** Division of discovery among the replicas. */
  async openDiscovery(registry: Registry): Promise<SharedDiscovery> {
    const log = this.#options.logger.target('service::forward');
    const forwards = () => registry.current.forwards.keys();
    const sharing = new SharedDiscovery({ shared: this.shared, forwards, log });
    await sharing.open();
    return sharing;
  }

  /** Sessions at upstreams that the replicas share. */
  async openUpstreamSessions(sealer: TokenSealer): Promise<SharedUpstreamSessions> {
    const sessions = new SharedUpstreamSessions(sealer);
    await sessions.open(this.shared);
    return sessions;
  }

  /** Small settings that the replicas share. */
  async openRecords<Content>(name: string, schema: z.ZodType<Content>): Promise<Collection<Content>> {
    const records = new Collection({ name, schema });
    await records.open(this.shared);
    return records;
  }

  /** Announces where other replicas reach this one; `bound` is the address of the listener for them. */
  async announce(bound: string | undefined): Promise<void> {
    const { members } = this.shared;
    const { config, logger } = this.#options;
    if (bound === undefined) {
      const lost = 'clients cannot resume streams or answer questions of calls through another replica';
      logger.target('service').warn(`without SERVICE_PEER_LISTEN, ${lost}`);
    } else {
      const { host, port } = config.peerAdvertise ?? {};
      const boundPort = Number(bound.slice(bound.lastIndexOf(':') + 1));
      members.address = host === undefined ? bound : formatAddress({ host, port: port || boundPort });
    }
    // A failure delays it to the next renewal.
    await members.renew().catch(() => undefined);
  }

  /** The replicas for the management API. */
  async list(sharing: SharedDiscovery): Promise<ReplicaBody[]> {
    const { members } = this.shared;
    return (await members.list()).map(({ id, version, startedAt, isLive, lag, load }) => ({
      id,
      self: id === members.id,
      version,
      startedAt: startedAt.toISOString(),
      live: isLive,
      lag,
      load: Math.round(load * 1_000) / 1_000,
      forwards: sharing.forwardsOf(id),
    }));
  }

  /** Requests that were handed off to other replicas. */
  get handedOff(): number {
    return this.#client?.sent ?? 0;
  }

  /** Makes the chain of a listener. */
  chain(
    { name, filters }: LoadedListener,
    parts: ChainParts,
    located: Pick<RoutingDeps, 'events' | 'suspendedCalls' | 'tasks'>,
  ): McpFilter {
    const { config } = this.#options;
    const { shared } = this;
    const client = this.#client;
    const toOwner = (filter: McpFilter) =>
      client ? routeToOwner(filter, { ...located, client, members: shared.members, listener: name }) : filter;
    return liveChain(makeChain(filters, { ...parts, routeToOwner: toOwner }), shared, config.maxStalenessMs);
  }

  /**
   * The server for other replicas: requests that they hand off, each of which runs through the chain of the listener that it came
   * to, and their own about this replica. Undefined without a listener for them. The caller listens and closes.
   */
  listener(
    chains: readonly ListenerChain[],
    queries: QueryHandlers,
    options: Omit<PipelineListenerOptions, 'chain' | 'allow' | 'guard'>,
  ): HttpServer | undefined {
    if (!this.#key) return undefined;
    const { interactions } = this.#options;
    const cache = new ConversationCache(interactions);
    const conversations = conversationQuery(interactions, {
      latest: (id) => cache.latestHere(id),
      whole: (id) => conversationReader(interactions)(id),
    });
    const allQueries = { ...queries, ...conversations };
    const telemetry = new RequestTelemetry(REPLICA_LISTENER, 'service::mcp::access', options.requests);
    const handlers = new Map(
      chains.map(({ listener, chain }) => [
        listener.name,
        requestHandler(servingOptions(listener, { ...options, chain, telemetry })),
      ]),
    );
    return createHttpServer(
      {
        tls: peerServerTls(this.#key),
        readTimeoutMs: READ_TIMEOUT_MS,
        maxConnections: undefined,
        guard: () => undefined,
        telemetry,
        createExchange: (head, request, response) => {
          const address = stringOf(head.headers[PEER_CLIENT]) ?? head.address;
          return new McpExchange({ ...head, address }, request, response);
        },
        isForReplicas: true,
        authenticate: fromPeer,
        blocks: options.blocks,
        identity: { served: 'mcp', namespaceOf: namespaceSegment },
        admitted: options.admitted,
        requires: ({ headers }) => (headers[PEER_LISTENER] === PEER_QUERIES ? 'open' : 'optional'),
      },
      (exchange, rejection) => {
        const { request, response } = exchange;
        const listener = stringOf(request.headers[PEER_LISTENER]);
        if (listener === PEER_QUERIES) return serveQuery(allQueries, request, response);
        const handler = handlers.get(listener ?? '');
        if (handler) return handler(exchange, rejection);
        drainRequestBody(request);
        response.writeHead(404, []);
        response.end();
      },
    );
  }

  async close(): Promise<void> {
    this.#client?.close();
    await this.shared.close();
  }
}

function stringOf(value: string | string[] | undefined): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

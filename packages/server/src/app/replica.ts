import { REPLICA_LISTENER } from '../exchange/head.ts';
import { PEER_CLIENT, PEER_LISTENER, PEER_VIEWS, Peers, peerKey, peerServerTls } from '../http/peers.ts';
import { OtherReplicas, serveView, type Views } from '../http/replica-views.ts';
import { drainRequestBody } from '../http/request-body.ts';
import type { HttpServer } from '../http/server/http1-server.ts';
import { createHttpServer } from '../http/server.ts';
import { fromPeer } from '../identity/peer.ts';
import type { InteractionStore } from '../inference/interaction-store.ts';
import { McpExchange, type McpFilter } from '../mcp/exchange.ts';
import { requestHandler } from '../mcp/listener.ts';
import { ConversationCache, conversationReader } from '../policy/llm/history.ts';
import { conversationView, OtherConversations } from '../policy/llm/other-conversations.ts';
import type { SharedLog } from '../registry/store/postgres/shared-log.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import { RequestTelemetry } from '../telemetry/request-telemetry.ts';
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
import { liveChain, type PassOnParts, passOn } from './replica-chain.ts';

/** Options of {@link Replica}. */
export interface ReplicaOptions {
  readonly shared: SharedLog;
  readonly config: Pick<Config, 'peerListen' | 'sessionKey' | 'maxStalenessMs'>;
  readonly interactions: InteractionStore;
  readonly log: TargetLogger;
}

/** What the service has in addition as one of several replicas (docs/replicas.md). Its module is loaded only then. */
export class Replica {
  /** Reads from the other replicas what only they have in memory. */
  readonly others: OtherReplicas;
  readonly conversations: OtherConversations;
  readonly #options: ReplicaOptions;
  /** Undefined without a listener for replicas: then none reaches another one. */
  readonly #key: Buffer | undefined;
  readonly #peers: Peers | undefined;

  constructor(options: ReplicaOptions) {
    this.#options = options;
    const { shared, config, interactions, log } = options;
    this.#key = config.peerListen && config.sessionKey ? peerKey(config.sessionKey) : undefined;
    this.#peers = this.#key && new Peers(this.#key);
    shared.members.left.subscribe(({ address }) => {
      // Its successor may have the same one.
      if (address !== null && !shared.members.addresses.includes(address)) this.#peers?.disconnect(address);
    });
    this.others = new OtherReplicas({ peers: this.#peers, others: () => shared.members.others, log });
    this.conversations = new OtherConversations({ replicas: this.others, interactions });
  }

  /** Requests that were passed on to other replicas. */
  get passedOn(): number {
    return this.#peers?.sent ?? 0;
  }

  /** Makes the chain of a listener. */
  chain(
    { name, filters }: LoadedListener,
    parts: ChainParts,
    located: Pick<PassOnParts, 'events' | 'suspendedCalls' | 'tasks'>,
  ): McpFilter {
    const { shared, config } = this.#options;
    const peers = this.#peers;
    const toOwner = (filter: McpFilter) =>
      peers ? passOn(filter, { ...located, peers, members: shared.members, listener: name }) : filter;
    return liveChain(makeChain(filters, { ...parts, passOn: toOwner }), shared, config.maxStalenessMs);
  }

  /**
   * The server for other replicas: requests that they pass on, each of which runs through the chain of the listener that it came
   * to, and their own about this replica. Undefined without a listener for them. The caller listens and closes.
   */
  listener(
    chains: readonly ListenerChain[],
    views: Views,
    options: Omit<PipelineListenerOptions, 'chain' | 'allow' | 'guard'>,
  ): HttpServer | undefined {
    if (!this.#key) return undefined;
    const { interactions } = this.#options;
    const cache = new ConversationCache(interactions);
    const conversations = conversationView(interactions, {
      latest: (id) => cache.latestHere(id),
      whole: (id) => conversationReader(interactions)(id),
    });
    const allViews = { ...views, ...conversations };
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
        requires: ({ headers }) => (headers[PEER_LISTENER] === PEER_VIEWS ? 'open' : 'optional'),
      },
      (exchange, rejection) => {
        const { request, response } = exchange;
        const listener = stringOf(request.headers[PEER_LISTENER]);
        if (listener === PEER_VIEWS) return serveView(allViews, request, response);
        const handler = handlers.get(listener ?? '');
        if (handler) return handler(exchange, rejection);
        drainRequestBody(request);
        response.writeHead(404, []);
        response.end();
      },
    );
  }

  close(): void {
    this.#peers?.close();
  }
}

function stringOf(value: string | string[] | undefined): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

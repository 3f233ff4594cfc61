import { hkdfSync } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { ConnectionOptions, TlsOptions } from 'node:tls';
import { PEER_HEADER_PREFIX, PEER_PRINCIPAL } from '../identity/peer.ts';
import type { UpstreamRequest, UpstreamTransport } from './client/client.ts';
import { collectResponse } from './client/collect-response.ts';
import { createTransport } from './client/pool.ts';
import { ResponseStream } from './client/response-stream.ts';
import { HOP_BY_HOP } from './header-lines.ts';
import type { HandedOff, PlainOutcome } from './outcome.ts';
import { ProxiedExchange } from './proxy.ts';

/** Sent in handshakes; what is proven is the key. */
const IDENTITY = 'sluice';
/** Ciphers with a pre-shared key and forward secrecy. TLS 1.3 of Node.js has no callback for such keys. */
const TLS = {
  ciphers: 'ECDHE-PSK-CHACHA20-POLY1305:DHE-PSK-AES256-GCM-SHA384',
  minVersion: 'TLSv1.2',
  maxVersion: 'TLSv1.2',
} as const;
/** As long as the lease of a replica, after which it is not live: until then, it may just be busy. */
const HANDSHAKE_MS = 4_000;
/** Idle time after which a connection is closed, in milliseconds. */
const IDLE_MS = 10_000;
/** Time for a notification, and how many are sent to a replica at once; bytes of those that wait, of which more are dropped. */
const NOTIFICATION_MS = 5_000;
const NOTIFICATIONS_AT_ONCE = 8;
const MAX_WAITING_BYTES = 1024 * 1024;
/** Bytes of the response to a notification. */
const MAX_RESPONSE_BYTES = 64 * 1024;

/** Headers that replicas add to requests: the pipeline listener, and the address of the client. */
export const PEER_LISTENER = `${PEER_HEADER_PREFIX}listener`;
export const PEER_CLIENT = `${PEER_HEADER_PREFIX}client`;
/** Value of {@link PEER_LISTENER} for queries of a replica itself. */
export const PEER_QUERIES = '(queries)';

/** The key with which replicas prove to each other that they belong together, derived from that of sessions. */
export function peerKey(sessionKey: Buffer): Buffer {
  return Buffer.from(hkdfSync('sha256', sessionKey, '', 'sluice replicas', 32));
}

/** TLS options of the server for other replicas, which proves the key to them and demands it of them. */
export function peerServerTls(key: Buffer): TlsOptions {
  return {
    ...TLS,
    handshakeTimeout: HANDSHAKE_MS,
    pskCallback: (_socket, identity) => (identity === IDENTITY ? key : null),
  };
}

/** A request of a client that another replica has to answer. */
export interface PeerRequest {
  readonly method: string;
  /** Path and query. */
  readonly target: string;
  readonly headers: IncomingHttpHeaders;
  readonly listener: string;
  readonly client: string | undefined;
  readonly principal: string;
}

/** A request of this replica itself. */
export interface QueryRequest {
  readonly method: 'GET' | 'DELETE';
  /** Path and query. */
  readonly target: string;
}

/** Sends requests to other replicas, each once; nothing is sent before both sides have proven the key. */
export class PeerClient {
  /** Number of requests sent. */
  sent = 0;
  readonly #tls: ConnectionOptions;
  readonly #notificationMs: number;
  /** The replicas that requests were sent to, by address. */
  readonly #peers = new Map<string, Peer>();

  constructor(key: Buffer, notificationMs = NOTIFICATION_MS) {
    this.#notificationMs = notificationMs;
    this.#tls = {
      ...TLS,
      pskCallback: () => ({ psk: key, identity: IDENTITY }),
      // The key, not a name, identifies the other side.
      checkServerIdentity: () => undefined,
    };
  }

  /** The outcome of a message that the replica at `address` (`host:port`) answers. `unreachable`: the response if it cannot. */
  exchange(address: string, sent: PeerRequest, unreachable: PlainOutcome): HandedOff {
    return {
      kind: 'handed_off',
      start: (request, response, body) => {
        const { transport } = this.#peer(address);
        const { path, headers } = peerRequest(sent);
        const failureResponse = () => unreachable;
        const plan = { transport, path, headers, body, responseHeaders: [], failureResponse };
        new ProxiedExchange(plan, request, response).start();
      },
    };
  }

  /** Sends a request with a body and discards the response. It is lost if the replica does not answer in time. */
  notify(address: string, request: PeerRequest, body: Buffer): void {
    this.#peer(address).notify({ ...peerRequest(request), body }, this.#notificationMs);
  }

  /** Sends a query, and returns what the replica at `address` responds. */
  query(address: string, { method, target }: QueryRequest): ResponseStream {
    const request = { method, path: target, headers: [PEER_LISTENER, PEER_QUERIES] };
    return new ResponseStream(this.#peer(address).transport, request);
  }

  /** Ends what the replica at `address` is answering: it is no longer live, and may never answer. */
  disconnect(address: string): void {
    void this.#peers.get(address)?.transport.destroy();
    this.#peers.delete(address);
  }

  close(): void {
    for (const address of this.#peers.keys()) this.disconnect(address);
  }

  #peer(address: string): Peer {
    this.sent++;
    return this.#peers.getOrInsertComputed(address, () => new Peer(address, this.#tls));
  }
}

/** A notification that waits until others have been sent. */
interface Waiting {
  readonly request: UpstreamRequest & { readonly body: Buffer };
  /** In milliseconds of `performance.now()`. */
  readonly deadline: number;
}

/** Another replica: one that has stopped may neither hold up requests nor keep any number of notifications in memory. */
class Peer {
  readonly transport: UpstreamTransport;
  #notifications = 0;
  readonly #waiting: Waiting[] = [];
  #waitingBytes = 0;

  constructor(address: string, tls: ConnectionOptions) {
    this.transport = createTransport(`https://${address}`, {
      tls,
      connectTimeoutMs: HANDSHAKE_MS,
      keepAliveMs: IDLE_MS,
      redirects: 'pass',
      codings: 'pass',
    });
  }

  notify(request: Waiting['request'], timeoutMs: number): void {
    if (this.#waitingBytes + request.body.length > MAX_WAITING_BYTES) return;
    this.#waiting.push({ request, deadline: performance.now() + timeoutMs });
    this.#waitingBytes += request.body.length;
    this.#sendWaiting();
  }

  #sendWaiting(): void {
    while (this.#notifications < NOTIFICATIONS_AT_ONCE) {
      const next = this.#waiting.shift();
      if (!next) return;
      this.#waitingBytes -= next.request.body.length;
      const timeoutMs = next.deadline - performance.now();
      if (timeoutMs <= 0) continue;
      this.#notifications++;
      collectResponse(this.transport, next.request, { maxBytes: MAX_RESPONSE_BYTES, timeoutMs })
        .catch(() => undefined)
        .finally(() => {
          this.#notifications--;
          this.#sendWaiting();
        });
    }
  }
}

function peerRequest({ method, target, headers, listener, client, principal }: PeerRequest) {
  const others = Object.entries(headers).flatMap(([name, value = []]) =>
    isOfConnection(name) ? [] : [value].flat().flatMap((line) => [name, line]),
  );
  const own = [
    PEER_LISTENER,
    listener,
    PEER_PRINCIPAL,
    principal,
    ...(client === undefined ? [] : [PEER_CLIENT, client]),
  ];
  return { method, path: target, headers: [...others, ...own] };
}

/** Whether a header describes the connection or the body as they arrived, and not the request, or is one of those above. */
function isOfConnection(name: string): boolean {
  return (
    HOP_BY_HOP.has(name) ||
    name.startsWith('proxy-') ||
    name.startsWith(PEER_HEADER_PREFIX) ||
    name === 'content-length' ||
    name === 'expect' ||
    name === 'host'
  );
}

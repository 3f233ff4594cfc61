import { hkdfSync } from 'node:crypto';
import type { ClientRequest, IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { Agent, request as sendRequest } from 'node:https';
import type { TlsOptions } from 'node:tls';
import { PEER_HEADER_PREFIX, PEER_PRINCIPAL } from '../identity/peer.ts';
import { endpointOf } from './address.ts';
import type { ResponseLike } from './exchange.ts';
import { HOP_BY_HOP } from './header-lines.ts';
import type { PassedOutcome } from './outcome.ts';
import { clientResponseHeaders } from './proxy.ts';
import { sendBody } from './response-body.ts';

/** Sent in handshakes; what is proven is the key. */
const IDENTITY = 'sluice';
/** Ciphers with a pre-shared key and forward secrecy. TLS 1.3 of Node.js has no callback for such keys. */
const TLS: TlsOptions = {
  ciphers: 'ECDHE-PSK-CHACHA20-POLY1305:DHE-PSK-AES256-GCM-SHA384',
  minVersion: 'TLSv1.2',
  maxVersion: 'TLSv1.2',
};
/** As long as the lease of a replica, after which it is not live: until then, it may just be busy. */
const HANDSHAKE_MS = 4_000;
/** Idle time after which a connection is closed, in milliseconds. */
const IDLE_MS = 10_000;
/** Time for a notification, and connections to each replica for them: one that has stopped may not hold up requests. */
const NOTIFICATION_MS = 5_000;
const NOTIFICATION_CONNECTIONS = 8;

/** Headers that replicas add to requests: the pipeline listener, and the address of the client. */
export const PEER_LISTENER = `${PEER_HEADER_PREFIX}listener`;
export const PEER_CLIENT = `${PEER_HEADER_PREFIX}client`;
/** Value of {@link PEER_LISTENER} for what a replica asks another one itself. */
export const PEER_VIEWS = '(views)';

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
  /** Value of {@link PEER_PRINCIPAL}; undefined for a request of this replica itself. */
  readonly principal: string | undefined;
}

/** Sends requests of clients to other replicas. A request is sent once; nothing is sent before both sides have proven the key. */
export class Peers {
  /** Number of requests sent. */
  sent = 0;
  readonly #agent: Agent;
  readonly #notificationAgent: Agent;
  readonly #notificationMs: number;
  /** Requests that other replicas are answering, by address. */
  readonly #exchanges = new Map<string, Set<ClientRequest>>();

  constructor(key: Buffer, notificationMs = NOTIFICATION_MS) {
    this.#notificationMs = notificationMs;
    const options = {
      ...TLS,
      keepAlive: true,
      timeout: IDLE_MS,
      pskCallback: () => ({ psk: key, identity: IDENTITY }),
      // The key, not a name, identifies the other side.
      checkServerIdentity: () => undefined,
    };
    this.#agent = new Agent(options);
    this.#notificationAgent = new Agent({ ...options, maxSockets: NOTIFICATION_CONNECTIONS, maxFreeSockets: 1 });
  }

  /** The outcome of a message that the replica at `address` (`host:port`) answers. `unreachable`: the response if it cannot. */
  exchange(address: string, request: PeerRequest, unreachable: { status: number; body: string }): PassedOutcome {
    return {
      kind: 'passed',
      start: (response, body) => {
        const sent = this.#send(address, request, body, (message) => {
          const { statusCode = 502, rawHeaders } = message;
          response.writeHead(statusCode, clientResponseHeaders(statusCode, rawHeaders));
          sendBody(message, response).catch(() => undefined);
        });
        sent.on('error', () => fail(response, unreachable));
        response.on('close', () => sent.destroy());
        this.#track(address, sent);
      },
    };
  }

  /** Ends what the replica at `address` is answering: it is no longer live, and may never answer. */
  disconnect(address: string): void {
    for (const sent of this.#exchanges.get(address) ?? []) sent.destroy(new Error('the replica is no longer live'));
  }

  #track(address: string, sent: ClientRequest): void {
    const exchanges = this.#exchanges.getOrInsertComputed(address, () => new Set());
    exchanges.add(sent);
    sent.once('close', () => {
      exchanges.delete(sent);
      if (exchanges.size === 0) this.#exchanges.delete(address);
    });
  }

  /** Sends a request with a body and discards the response. It is lost if the replica does not answer in time. */
  notify(address: string, request: PeerRequest, body: Buffer): void {
    const options = { agent: this.#notificationAgent, signal: AbortSignal.timeout(this.#notificationMs) };
    const discard = (message: IncomingMessage) => message.on('error', () => undefined).resume();
    this.#send(address, request, body, discard, options).on('error', () => undefined);
  }

  /** Asks the replica at `address` about itself. Rejects if it does not respond with 200 before the signal. */
  ask(
    address: string,
    { method, target, signal }: { readonly method: string; readonly target: string; readonly signal: AbortSignal },
  ): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const request = { method, target, headers: {}, listener: PEER_VIEWS, client: undefined, principal: undefined };
      const sent = this.#send(address, request, Buffer.alloc(0), (message) => {
        if (message.statusCode === 200) return resolve(message);
        message.resume();
        reject(new Error(`status ${message.statusCode}`));
      });
      sent.on('error', reject);
      // Also ends the response.
      const onAbort = () => sent.destroy(new Error('timed out'));
      signal.addEventListener('abort', onAbort, { once: true });
      sent.on('close', () => signal.removeEventListener('abort', onAbort));
    });
  }

  close(): void {
    this.#agent.destroy();
    this.#notificationAgent.destroy();
  }

  #send(
    address: string,
    { method, target, headers, listener, client, principal }: PeerRequest,
    body: Buffer,
    onResponse: (message: IncomingMessage) => void,
    options: { readonly agent: Agent; readonly signal?: AbortSignal } = { agent: this.#agent },
  ): ClientRequest {
    const others = Object.entries(headers).filter(([name]) => !isOfConnection(name));
    // The body may be one message of a batch, and was read whole.
    const length = body.length > 0 && { 'content-length': String(body.length) };
    this.sent++;
    const sent = sendRequest(
      {
        ...options,
        ...endpointOf(new URL(`https://${address}`)),
        method,
        path: target,
        headers: {
          ...Object.fromEntries(others),
          ...length,
          [PEER_LISTENER]: listener,
          ...(client !== undefined && { [PEER_CLIENT]: client }),
          ...(principal !== undefined && { [PEER_PRINCIPAL]: principal }),
        },
      },
      onResponse,
    );
    sent.once('socket', (socket) => {
      if (sent.reusedSocket) return;
      // What listens there may not be a replica.
      const timer = setTimeout(() => sent.destroy(new Error('TLS handshake timed out')), HANDSHAKE_MS);
      socket.once('secureConnect', () => clearTimeout(timer)).once('close', () => clearTimeout(timer));
    });
    sent.end(body);
    return sent;
  }
}

/** Whether a header describes the connection or the body as they arrived, and not the request. */
function isOfConnection(name: string): boolean {
  return HOP_BY_HOP.has(name) || name.startsWith('proxy-') || name === 'content-length' || name === 'expect';
}

function fail(response: ResponseLike, { status, body }: { status: number; body: string }): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  response.writeHead(status, ['Content-Type', 'application/json', 'Content-Length', String(Buffer.byteLength(body))]);
  response.end(body);
}

import { isJsonObject } from '@sluice/protocol/json/parse';
import { memberText } from '@sluice/protocol/json/scan';
import type { ClientCapabilities } from '@sluice/protocol/mcp/capabilities';
import {
  type Era,
  HEADER_HOPS,
  HEADER_METHOD,
  HEADER_NAME,
  HEADER_PROTOCOL_VERSION,
  HEADER_SESSION_ID,
  LATEST_LEGACY,
  LATEST_MODERN,
  LEGACY_VERSIONS,
  META_CLIENT_CAPABILITIES,
  META_CLIENT_INFO,
  META_PROTOCOL_VERSION,
  MODERN_VERSIONS,
  NAME_PARAM,
  UNSUPPORTED_VERSION,
} from '@sluice/protocol/mcp/constants';
import { encodeHeaderValue } from '@sluice/protocol/mcp/param-headers';
import type { UpstreamTransport } from '../../http/client/client.ts';
import { quoted, UpstreamError } from '../../http/client/errors.ts';
import { type ExchangeAnswer, exchange } from './rpc-request.ts';

/** Who asks, and how: shared by everything that speaks to an upstream outside calls. */
export interface ClientOptions {
  readonly transport: UpstreamTransport;
  /** What is declared to the upstream. */
  readonly capabilities: ClientCapabilities;
  /** Name and version of who asks: a client's own for its sessions, ours for everything else. */
  readonly clientInfo: Readonly<Record<string, unknown>>;
  /** Legacy version to ask for (default: the latest). */
  readonly protocolVersion?: string;
  /** Headers besides the protocol's own, alternating names and values. */
  readonly headers?: readonly string[];
  /** Milliseconds for each request (default 30000, decisions 4.3). */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal | undefined;
  /** Gives an id that no other request in the session has (default: counted here, where all its requests are made). */
  readonly nextId?: () => number;
}

/** What a request got: the exact text of the result beside its parsed form, or the upstream's own error. */
export type Reply =
  | { readonly kind: 'result'; readonly text: string; readonly result: Readonly<Record<string, unknown>> }
  | { readonly kind: 'error'; readonly code: number; readonly message: string; readonly data: unknown };

/** An upstream that has told who it is, and can be asked in one era. */
export interface UpstreamClient {
  readonly era: Era;
  /** The version spoken with it. */
  readonly protocolVersion: string;
  /** Exact JSON of its InitializeResult or DiscoverResult. */
  readonly identity: string;
  /** Parsed `capabilities` of the same. */
  readonly serverCapabilities: Readonly<Record<string, unknown>>;
  /** Sends one request; `params` without `_meta`. Rejects with an {@link UpstreamError} when there is no reply. */
  request(method: string, params?: Readonly<Record<string, unknown>>): Promise<Reply>;
  /** Ends what the upstream holds for us; never rejects. */
  close(): Promise<void>;
}

export const DEFAULT_TIMEOUT_MS = 30_000;

/** Reads the answer to a request. Rejects a result that is no object (`invalid`). */
export function toReply(answer: ExchangeAnswer, method: string, address: string): Reply {
  const { response, outcome, status } = answer;
  if (outcome?.kind === 'error') return outcome;
  const text = response === undefined ? undefined : memberText(response, 'result');
  if (outcome === undefined || text === undefined || !isJsonObject(outcome.result)) {
    throw new UpstreamError('invalid', address, `answered ${method} with a result that is no object`, { status });
  }
  return { kind: 'result', text, result: outcome.result };
}

/** The result of `method`, which nothing but a result answers: an error becomes an {@link UpstreamError} `rpc`. */
export function resultOf(reply: Reply, method: string, address: string): Extract<Reply, { kind: 'result' }> {
  if (reply.kind === 'result') return reply;
  throw errorOf(reply, method, address);
}

/** An upstream's own error, as the failure that it is where only a result will do. */
export function errorOf(
  { code, data, message }: Extract<Reply, { kind: 'error' }>,
  method: string,
  address: string,
): UpstreamError {
  return new UpstreamError('rpc', address, `answered ${method} with error ${code}: ${quoted(message)}`, { code, data });
}

/**
 * True when an answer to a request that carried a session id says that the upstream no longer knows the session, so
 * that nothing was executed and the request may be repeated after a new `initialize` (mcp 4).
 *
 * 404 is the protocol's way to say so. The reference server says 400 with -32000 (`No valid session ID provided`), as do
 * the many that were modelled on it; `code` is that of the JSON-RPC error in the answer, if there was one.
 */
export function isSessionNotFound(status: number, code: number | undefined): boolean {
  return status === 404 || (status === 400 && code === -32000);
}

/** An upstream that is waited for no longer than this when a session is ended. */
const CLOSE_TIMEOUT_MS = 5_000;

/** A legacy session with an upstream; one without an id when the upstream gives none. */
export interface LegacyClient extends UpstreamClient {
  readonly era: 'legacy';
  readonly sessionId: string | undefined;
  /** Headers that say whose a request is, names and values alternating: version and session. */
  readonly sessionHeaders: readonly string[];
}

/**
 * Opens a session: `initialize` and `notifications/initialized`. Rejects with an {@link UpstreamError}: `rpc` when the
 * upstream answers `initialize` with an error, `invalid` when the answer is no InitializeResult of a version we know.
 */
export async function openLegacy(options: ClientOptions): Promise<LegacyClient> {
  const { transport, capabilities, clientInfo, timeoutMs = DEFAULT_TIMEOUT_MS, signal } = options;
  const { protocolVersion: wanted = LATEST_LEGACY, headers = [] } = options;
  const { address } = transport;
  const params = { protocolVersion: wanted, capabilities, clientInfo };
  const answer = await exchange(transport, {
    message: JSON.stringify({ jsonrpc: '2.0', id: 0, method: 'initialize', params }),
    id: 0,
    headers: withHops(headers),
    timeoutMs,
    signal,
  });
  const { text, result } = resultOf(toReply(answer, 'initialize', address), 'initialize', address);
  const { protocolVersion } = result;
  if (typeof protocolVersion !== 'string' || !isJsonObject(result.capabilities)) {
    throw new UpstreamError('invalid', address, 'answered initialize without protocolVersion or capabilities');
  }
  if (!LEGACY_VERSIONS.includes(protocolVersion)) {
    const what = `answered initialize with protocol version ${quoted(protocolVersion)}, which is not known here`;
    throw new UpstreamError('invalid', address, what);
  }
  const client = new Session(options, answer.sessionId, protocolVersion, text, result.capabilities);
  try {
    await client.notify('notifications/initialized');
  } catch (error) {
    void client.close();
    throw error;
  }
  return client;
}

/** Who opens a session for a request that has come through gateways says so in `headers`; for others this is the first. */
function withHops(headers: readonly string[]): string[] {
  return headers.includes(HEADER_HOPS) ? [...headers] : [HEADER_HOPS, '1', ...headers];
}

class Session implements LegacyClient {
  readonly era = 'legacy';
  readonly sessionId: string | undefined;
  readonly sessionHeaders: readonly string[];
  readonly protocolVersion: string;
  readonly identity: string;
  readonly serverCapabilities: Readonly<Record<string, unknown>>;
  readonly #options: ClientOptions;
  readonly #headers: string[];
  readonly #nextId: () => number;

  constructor(
    options: ClientOptions,
    sessionId: string | undefined,
    protocolVersion: string,
    identity: string,
    serverCapabilities: Readonly<Record<string, unknown>>,
  ) {
    let lastId = 0;
    this.#options = options;
    this.#nextId = options.nextId ?? (() => ++lastId);
    this.sessionId = sessionId;
    this.protocolVersion = protocolVersion;
    this.identity = identity;
    this.serverCapabilities = serverCapabilities;
    const session = sessionId === undefined ? [] : [HEADER_SESSION_ID, sessionId];
    this.sessionHeaders = [HEADER_PROTOCOL_VERSION, protocolVersion, ...session];
    this.#headers = [...this.sessionHeaders, ...withHops(options.headers ?? [])];
  }

  async request(method: string, params?: Readonly<Record<string, unknown>>): Promise<Reply> {
    const id = this.#nextId();
    const answer = await this.#send(JSON.stringify({ jsonrpc: '2.0', id, method, params }), id);
    return toReply(answer, method, this.#options.transport.address);
  }

  async notify(method: string): Promise<void> {
    await this.#send(JSON.stringify({ jsonrpc: '2.0', method }));
  }

  close(): Promise<void> {
    const { sessionId } = this;
    if (sessionId === undefined) return Promise.resolve();
    return new Promise((resolve) => {
      const call = this.#options.transport.dispatch(
        { method: 'DELETE', headers: this.#headers },
        { onHead: () => undefined, onData: () => true, onEnd: () => done(), onError: () => done() },
      );
      const timer = setTimeout(() => {
        call.abort();
        resolve();
      }, CLOSE_TIMEOUT_MS).unref();
      const done = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  async #send(message: string, id?: number): Promise<ExchangeAnswer> {
    const { transport, timeoutMs = DEFAULT_TIMEOUT_MS, signal } = this.#options;
    const sent = { message, headers: this.#headers, timeoutMs, signal };
    try {
      const answer = await exchange(transport, id === undefined ? sent : { ...sent, id });
      const code = answer.outcome?.kind === 'error' ? answer.outcome.code : undefined;
      if (this.sessionId === undefined || !isSessionNotFound(answer.status, code)) return answer;
    } catch (error) {
      const status = error instanceof UpstreamError && error.kind === 'http' ? error.status : undefined;
      if (this.sessionId === undefined || status === undefined || !isSessionNotFound(status, undefined)) throw error;
    }
    throw new UpstreamError('session-lost', transport.address, 'no longer knows the session');
  }
}

/** A modern upstream that has answered `server/discover`. There is no session: closing it does nothing. */
export interface ModernClient extends UpstreamClient {
  readonly era: 'modern';
  /** Every version it named, modern or not. */
  readonly supportedVersions: readonly string[];
}

/**
 * Asks an upstream who it is (`server/discover`). When it speaks another modern version that we know, that one is used.
 * Rejects with an {@link UpstreamError}: `rpc` when it answers with an error (whose code may prove the modern era, mcp
 * 4), `invalid` when the answer is no DiscoverResult.
 */
export async function openModern(options: ClientOptions): Promise<ModernClient> {
  const { address } = options.transport;
  let asking = new Asking(options, LATEST_MODERN);
  let reply = await asking.request('server/discover');
  if (reply.kind === 'error' && reply.code === UNSUPPORTED_VERSION) {
    const offered = isJsonObject(reply.data) ? strings(reply.data.supported) : undefined;
    // Its own version among them means that it has changed its mind.
    const common = MODERN_VERSIONS.find((version) => offered?.includes(version));
    if (common !== undefined) {
      asking = new Asking(options, common);
      reply = await asking.request('server/discover');
    }
  }
  const { text, result } = resultOf(reply, 'server/discover', address);
  const supportedVersions = strings(result.supportedVersions);
  const { capabilities } = result;
  if (supportedVersions === undefined || !isJsonObject(capabilities)) {
    throw new UpstreamError('invalid', address, 'answered server/discover without supportedVersions or capabilities');
  }
  return {
    era: 'modern',
    protocolVersion: asking.protocolVersion,
    supportedVersions,
    identity: text,
    serverCapabilities: capabilities,
    request: (method, params) => asking.request(method, params),
    close: () => Promise.resolve(),
  };
}

/** Sends requests that carry their metadata, in `_meta` and in headers. */
class Asking {
  readonly protocolVersion: string;
  readonly #options: ClientOptions;
  readonly #meta: Readonly<Record<string, unknown>>;
  #lastId = 0;

  constructor(options: ClientOptions, protocolVersion: string) {
    this.#options = options;
    this.protocolVersion = protocolVersion;
    this.#meta = {
      [META_PROTOCOL_VERSION]: protocolVersion,
      [META_CLIENT_INFO]: options.clientInfo,
      [META_CLIENT_CAPABILITIES]: options.capabilities,
    };
  }

  async request(method: string, params: Readonly<Record<string, unknown>> = {}): Promise<Reply> {
    const { transport, timeoutMs = DEFAULT_TIMEOUT_MS, signal } = this.#options;
    const id = ++this.#lastId;
    const headers = [HEADER_HOPS, '1', HEADER_PROTOCOL_VERSION, this.protocolVersion, HEADER_METHOD, method];
    const named = NAME_PARAM.get(method);
    const name = named === undefined ? undefined : params[named];
    if (typeof name === 'string') headers.push(HEADER_NAME, encodeHeaderValue(name));
    const message = JSON.stringify({ jsonrpc: '2.0', id, method, params: { ...params, _meta: this.#meta } });
    const answer = await exchange(transport, { message, id, headers, timeoutMs, signal });
    return toReply(answer, method, transport.address);
  }
}

function strings(value: unknown): string[] | undefined {
  return Array.isArray(value) && value.every((element) => typeof element === 'string') ? value : undefined;
}

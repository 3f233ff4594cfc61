import { isJsonObject } from '@sluice/protocol/json/parse';
import {
  HEADER_HOPS,
  HEADER_PROTOCOL_VERSION,
  HEADER_SESSION_ID,
  LATEST_LEGACY,
  LEGACY_VERSIONS,
} from '@sluice/protocol/mcp/constants';
import { quoted, UpstreamError } from '../transport/upstream-error.ts';
import { type ExchangeAnswer, exchange } from './exchange.ts';
import { tellsSessionLost } from './session-loss.ts';
import {
  type ClientOptions,
  DEFAULT_TIMEOUT_MS,
  type Reply,
  resultOf,
  toReply,
  type UpstreamClient,
} from './upstream-client.ts';

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
      if (this.sessionId === undefined || !tellsSessionLost(answer.status, code)) return answer;
    } catch (error) {
      const status = error instanceof UpstreamError && error.kind === 'http' ? error.status : undefined;
      if (this.sessionId === undefined || status === undefined || !tellsSessionLost(status, undefined)) throw error;
    }
    throw new UpstreamError('session-lost', transport.address, 'no longer knows the session');
  }
}

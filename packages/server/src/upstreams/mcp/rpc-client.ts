import { isJsonObject, parseJson } from '@sluice/protocol/json/parse';
import { memberText } from '@sluice/protocol/json/text';
import type { ClientCapabilities } from '@sluice/protocol/mcp/capabilities';
import {
  type Era,
  HEADER_HOPS,
  HEADER_METHOD,
  HEADER_PROTOCOL_VERSION,
  HEADER_SESSION_ID,
  LATEST_LEGACY,
  LATEST_MODERN,
  LEGACY_VERSIONS,
  META_CLIENT_CAPABILITIES,
  META_CLIENT_INFO,
  META_PROTOCOL_VERSION,
  METHOD_NOT_FOUND,
  MODERN_VERSIONS,
  UNSUPPORTED_VERSION,
} from '@sluice/protocol/mcp/constants';
import { type PermitOutline, requireOutline } from '../../access/access.ts';
import type { UpstreamTransport } from '../../http/client/client.ts';
import { collectResponse } from '../../http/client/collect-response.ts';
import { quoted, UpstreamError } from '../../http/client/errors.ts';
import { type RpcFailure, type RpcRequest, type RpcResponse, sendMessage } from './rpc-request.ts';
import { isProxyStatus } from './session-loss.ts';

/** Connection and identity of an {@link RpcClient}. */
export interface RpcClientOptions {
  readonly transport: UpstreamTransport;
  /** Declared to the upstream. */
  readonly capabilities: ClientCapabilities;
  /** Name and version: of the client for its own sessions, of the gateway for everything else. */
  readonly clientInfo: Readonly<Record<string, unknown>>;
  /** Legacy version to request (default: the latest). */
  readonly protocolVersion?: string | undefined;
  /** Headers besides the protocol's own: names and values, alternating. */
  readonly headers?: readonly string[];
  /** Milliseconds for each request (default 30000). */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal | undefined;
}

/** Response to a request: the exact text of the result and its parsed form, or the upstream's error. */
export type RpcReply = RpcResult | RpcFailure;

interface RpcResult {
  readonly kind: 'result';
  readonly text: string;
  readonly result: Params;
}

/** The bytes of a response, which `free` frees. */
export interface ResponseParts {
  readonly kind: 'bytes';
  readonly parts: readonly Buffer[];
  free(): void;
}

/** Methods of lists. */
export type ListMethod = 'tools/list' | 'resources/list' | 'resources/templates/list' | 'prompts/list';

/**
 * Methods of requests of our own in a session. They are a closed list: whatever else is sent to an upstream is a request of a
 * client, which needs a permit.
 */
export type SessionMethod = 'ping' | 'logging/setLevel' | 'resources/unsubscribe';

/** Methods of requests that depend on what a client may see. */
type GatedMethod = 'resources/subscribe' | 'subscriptions/listen';
type Method = ListMethod | SessionMethod | GatedMethod | 'initialize' | 'server/discover';

const TIMEOUT_MS = 30_000;
/** Closing a session does not wait for the upstream any longer, nor read a longer response. */
const CLOSE_TIMEOUT_MS = 5_000;
const MAX_CLOSE_BYTES = 1024 * 1024;

type Params = Readonly<Record<string, unknown>>;

/** Format of the messages of one era and version: the era's headers, and its metadata in `params`. */
interface Envelope<E extends Era>
  extends Pick<RpcClient<E>, 'era' | 'protocolVersion' | 'sessionId' | 'sessionHeaders'> {
  /** All headers of a message. */
  headers(method?: Method): readonly string[];
  params(params: Params | undefined): Params | undefined;
}

/** Messages of a legacy session; of `initialize` while there is no version. */
function legacyEnvelope(
  { headers = [] }: RpcClientOptions,
  protocolVersion = '',
  sessionId?: string,
): Envelope<'legacy'> {
  const session = sessionId === undefined ? [] : [HEADER_SESSION_ID, sessionId];
  // A modern server that is probed expects the method of each request.
  const probe = protocolVersion === '' ? [HEADER_METHOD, 'initialize'] : [];
  const sessionHeaders = protocolVersion === '' ? [] : [HEADER_PROTOCOL_VERSION, protocolVersion, ...session];
  const all = [...sessionHeaders, ...probe, ...hopsOf(headers), ...headers];
  return { era: 'legacy', protocolVersion, sessionId, sessionHeaders, headers: () => all, params: (params) => params };
}

/** The number of gateways that a message has passed, unless it belongs to a request whose headers have that. */
function hopsOf(headers: readonly string[]): readonly string[] {
  return headers.includes(HEADER_HOPS) ? [] : [HEADER_HOPS, '1'];
}

/** Messages of the modern era, which carry their metadata in `_meta` and in headers. */
export function modernEnvelope(
  { clientInfo, capabilities, headers = [] }: Pick<RpcClientOptions, 'clientInfo' | 'capabilities' | 'headers'>,
  protocolVersion: string,
): Envelope<'modern'> {
  const _meta = {
    [META_PROTOCOL_VERSION]: protocolVersion,
    [META_CLIENT_INFO]: clientInfo,
    [META_CLIENT_CAPABILITIES]: capabilities,
  };
  const all = [...hopsOf(headers), HEADER_PROTOCOL_VERSION, protocolVersion, ...headers];
  return {
    era: 'modern',
    protocolVersion,
    sessionId: undefined,
    sessionHeaders: [HEADER_PROTOCOL_VERSION, protocolVersion],
    headers: (method) => [HEADER_METHOD, method ?? '', ...all],
    params: (params) => ({ ...params, _meta }),
  };
}

/** Sends one request. Rejects with `session-lost` if the upstream does not know the session. */
function send(
  { transport, timeoutMs = TIMEOUT_MS, signal }: RpcClientOptions,
  envelope: Envelope<Era>,
  method: Method,
  params?: Params,
  reading?: Pick<RpcRequest, 'maxBytes' | 'onPart'>,
): Promise<RpcResponse> {
  const { sessionId } = envelope;
  const own = envelope.params(params);
  const message = (id: number) => JSON.stringify({ jsonrpc: '2.0', id, method, params: own });
  const headers = envelope.headers(method);
  return sendMessage(transport, { message, method, sessionId, headers, timeoutMs, signal, ...reading });
}

/** Reads the response to a request. Throws `invalid` for a result that is not an object. */
function toReply({ outcome, status, text = '' }: RpcResponse, method: string, address: string): RpcReply {
  if (outcome?.kind === 'error') return outcome;
  if (outcome && isJsonObject(outcome.result)) {
    return { kind: 'result', text: memberText(text, 'result') ?? '{}', result: outcome.result };
  }
  throw new UpstreamError('invalid', address, `answered ${method} with a result that is not an object`, { status });
}

/** Reads the response to a request that requires a result: an error is thrown as an {@link UpstreamError} `rpc`. */
function requireResult(response: RpcResponse, method: string, address: string): RpcResult {
  const reply = toReply(response, method, address);
  if (reply.kind === 'result') return reply;
  throw toUpstreamError(reply, method, address);
}

/** An upstream's own error as a failure of the request. */
export function toUpstreamError(
  { code, data, message, isSessionLost }: RpcFailure,
  method: string,
  address: string,
): UpstreamError {
  return new UpstreamError(
    isSessionLost ? 'session-lost' : 'rpc',
    address,
    `answered ${method} with error ${code}: ${quoted(message)}`,
    { code, data, remedy: 'see the log of the upstream' },
  );
}

/** Sends requests to an upstream in one era, after the handshake: {@link openLegacy} or {@link openModern}. */
export class RpcClient<E extends Era = Era> {
  readonly era: E;
  /** Negotiated protocol version. */
  readonly protocolVersion: string;
  /** Exact JSON of the InitializeResult or DiscoverResult. */
  readonly identity: string;
  /** Parsed `capabilities` of the identity. */
  readonly serverCapabilities: Readonly<Record<string, unknown>>;
  /** Undefined in the modern era, and for legacy upstreams without sessions. */
  readonly sessionId: string | undefined;
  /** Headers of the session, names and values alternating: version and session id. */
  readonly sessionHeaders: readonly string[];
  readonly #options: RpcClientOptions;
  readonly #envelope: Envelope<E>;

  constructor(
    options: RpcClientOptions,
    envelope: Envelope<E>,
    identity: string,
    serverCapabilities: Readonly<Record<string, unknown>>,
  ) {
    this.#options = options;
    this.#envelope = envelope;
    this.era = envelope.era;
    this.protocolVersion = envelope.protocolVersion;
    this.identity = identity;
    this.serverCapabilities = serverCapabilities;
    this.sessionId = envelope.sessionId;
    this.sessionHeaders = envelope.sessionHeaders;
  }

  /** Sends one request; `params` without `_meta`. Rejects with an {@link UpstreamError} if there is no reply. */
  request(method: SessionMethod, params?: Params): Promise<RpcReply> {
    return this.#send(method, params);
  }

  /** Subscribes to a resource. Rejects as {@link request}. */
  async subscribe(permit: PermitOutline, uri: string): Promise<RpcReply> {
    requireOutline(permit);
    return await this.#send('resources/subscribe', { uri });
  }

  /** Requests a page of a list, and returns the response with it as bytes: it may be large. Rejects as {@link request}. */
  async requestPage(
    method: ListMethod,
    params: Params | undefined,
    reading: Required<Pick<RpcRequest, 'maxBytes' | 'onPart'>>,
  ): Promise<ResponseParts | RpcFailure> {
    const response = await send(this.#options, this.#envelope, method, params, reading);
    const reply = toReply(response, method, this.#options.transport.address);
    if (reply.kind === 'error') return reply;
    const { large, text = '' } = response;
    // Its id is not needed any more.
    if (large) return { kind: 'bytes', ...large.take('0') };
    return { kind: 'bytes', parts: [Buffer.from(text)], free: () => undefined };
  }

  async #send(method: Method, params?: Params): Promise<RpcReply> {
    const response = await send(this.#options, this.#envelope, method, params);
    return toReply(response, method, this.#options.transport.address);
  }

  /**
   * Whether the upstream has lost the session, by a `ping` in it. If that is rejected without naming the session, one in a new
   * session shows whether the upstream rejects all of them. Undefined if that is unknown: a session may have state. Never rejects.
   */
  async isLost(timeoutMs: number = TIMEOUT_MS): Promise<boolean | undefined> {
    if (this.sessionId === undefined) return false;
    const options = { ...this.#options, timeoutMs };
    const found = await pingIn(options, this.#envelope);
    if (found !== 'rejected') return found;
    // An upstream may reject all pings.
    const other = await openLegacy(options).catch(() => undefined);
    const works = other && (await pingIn(options, other.#envelope)) === false;
    void other?.close();
    return works || undefined;
  }

  /** Ends the session upstream, if there is one; never rejects. */
  async close(): Promise<void> {
    if (this.sessionId === undefined) return;
    const request = { method: 'DELETE', headers: this.#envelope.headers() };
    const limits = { maxBytes: MAX_CLOSE_BYTES, timeoutMs: CLOSE_TIMEOUT_MS };
    await collectResponse(this.#options.transport, request, limits).catch(() => undefined);
  }
}

/**
 * Whether the response to a `ping` names the loss of the session; `rejected` if it is another error, undefined if there is none.
 * Never rejects.
 */
async function pingIn(options: RpcClientOptions, envelope: Envelope<Era>): Promise<boolean | 'rejected' | undefined> {
  try {
    const { outcome } = await send(options, envelope, 'ping');
    if (outcome?.kind !== 'error') return false;
    if (outcome.isSessionLost) return true;
    return outcome.code === METHOD_NOT_FOUND ? false : 'rejected';
  } catch (error) {
    if (!(error instanceof UpstreamError)) return undefined;
    if (error.kind === 'http' && !isProxyStatus(error.status)) return 'rejected';
    return error.kind === 'session-lost' || undefined;
  }
}

/** A legacy session. */
export type LegacyClient = RpcClient<'legacy'>;
/** A modern upstream, where there is no session to close. */
export type ModernClient = RpcClient<'modern'>;

/**
 * Opens a session: `initialize` and `notifications/initialized`. Rejects with an {@link UpstreamError}: `rpc` if the
 * upstream answers `initialize` with an error, `invalid` if the result is not an InitializeResult of a known version.
 */
export async function openLegacy(options: RpcClientOptions): Promise<LegacyClient> {
  const { transport, capabilities, clientInfo, protocolVersion: requested = LATEST_LEGACY } = options;
  const { address } = transport;
  const params = { protocolVersion: requested, capabilities, clientInfo };
  const response = await send(options, legacyEnvelope(options), 'initialize', params);
  const { text, result } = requireResult(response, 'initialize', address);
  const { protocolVersion } = result;
  if (typeof protocolVersion !== 'string' || !isJsonObject(result.capabilities)) {
    throw unsupported(address, 'answered initialize without protocolVersion or capabilities');
  }
  if (!LEGACY_VERSIONS.includes(protocolVersion)) {
    throw unsupported(address, `answered initialize with unsupported protocol version ${quoted(protocolVersion)}`);
  }
  const envelope = legacyEnvelope(options, protocolVersion, response.sessionId);
  const client = new RpcClient(options, envelope, text, result.capabilities);
  try {
    const method = 'notifications/initialized';
    const message = JSON.stringify({ jsonrpc: '2.0', method });
    const { timeoutMs = TIMEOUT_MS, signal } = options;
    const { sessionId } = envelope;
    await sendMessage(transport, { message, method, sessionId, headers: envelope.headers(), timeoutMs, signal });
  } catch (error) {
    void client.close();
    throw error;
  }
  return client;
}

/** Uses a session that was opened before, perhaps by another process; `identity` is its InitializeResult. Sends nothing. */
export function resumeLegacy(
  options: RpcClientOptions,
  { sessionId, protocolVersion, identity }: Pick<LegacyClient, 'protocolVersion' | 'identity'> & { sessionId: string },
): LegacyClient {
  const result = parseJson(identity);
  const capabilities = isJsonObject(result) && isJsonObject(result.capabilities) ? result.capabilities : {};
  return new RpcClient(options, legacyEnvelope(options, protocolVersion, sessionId), identity, capabilities);
}

/**
 * Sends `server/discover`; an upstream that supports another known modern version is used with that one. Rejects with an {@link
 * UpstreamError}: `rpc` for an error, whose code may prove the modern era, `invalid` if the result is not a DiscoverResult with a
 * known modern version.
 */
export async function openModern(options: RpcClientOptions): Promise<ModernClient> {
  const method = 'server/discover';
  const { address } = options.transport;
  let envelope = modernEnvelope(options, LATEST_MODERN);
  let response = await send(options, envelope, method);
  const { outcome } = response;
  if (outcome?.kind === 'error' && outcome.code === UNSUPPORTED_VERSION) {
    const supported = isJsonObject(outcome.data) ? stringArray(outcome.data.supported) : undefined;
    // An upstream that lists the rejected version gets it once more.
    const common = MODERN_VERSIONS.find((version) => supported?.includes(version));
    if (common !== undefined) {
      envelope = modernEnvelope(options, common);
      response = await send(options, envelope, method);
    }
  }
  const { text, result } = requireResult(response, method, address);
  const { capabilities } = result;
  const versions = stringArray(result.supportedVersions);
  if (versions === undefined || !isJsonObject(capabilities)) {
    throw unsupported(address, `answered ${method} without supportedVersions or capabilities`);
  }
  // Servers of the legacy era may answer too, with the versions that they support.
  const common = [envelope.protocolVersion, ...MODERN_VERSIONS].find((version) => versions.includes(version));
  if (common === undefined) {
    const all = quoted(versions.join(', '));
    throw unsupported(address, `answered ${method} with unsupported protocol versions only: ${all}`);
  }
  if (common !== envelope.protocolVersion) envelope = modernEnvelope(options, common);
  return new RpcClient(options, envelope, text, capabilities);
}

/** Error for an upstream whose handshake is not one of a known version. */
function unsupported(address: string, what: string): UpstreamError {
  return new UpstreamError('invalid', address, what, { remedy: 'update the upstream, or Sluice' });
}

function stringArray(value: unknown): string[] | undefined {
  return Array.isArray(value) && value.every((element) => typeof element === 'string') ? value : undefined;
}

import { isJsonObject } from '@sluice/protocol/json/parse';
import {
  HEADER_HOPS,
  HEADER_METHOD,
  HEADER_NAME,
  HEADER_PROTOCOL_VERSION,
  LATEST_MODERN,
  META_CLIENT_CAPABILITIES,
  META_CLIENT_INFO,
  META_PROTOCOL_VERSION,
  MODERN_VERSIONS,
  NAME_PARAM,
  UNSUPPORTED_VERSION,
} from '@sluice/protocol/mcp/constants';
import { encodeHeaderValue } from '@sluice/protocol/mcp/param-headers';
import { UpstreamError } from '../transport/upstream-error.ts';
import { exchange } from './exchange.ts';
import {
  type ClientOptions,
  DEFAULT_TIMEOUT_MS,
  type Reply,
  resultOf,
  toReply,
  type UpstreamClient,
} from './upstream-client.ts';

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

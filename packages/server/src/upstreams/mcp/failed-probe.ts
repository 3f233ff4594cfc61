import { isJsonObject, tryParseJson } from '@sluice/protocol/json/parse';
import { type Era, LEGACY_VERSIONS, MODERN_ERROR_CODES, MODERN_VERSIONS } from '@sluice/protocol/mcp/constants';
import type { ResponseHeaders } from '../../http/client/client.ts';
import { collectResponse } from '../../http/client/collect-response.ts';
import { displayAddress, quoted, UpstreamError } from '../../http/client/errors.ts';
import { mediaType } from '../../http/client/response-parser.ts';
import type { RpcClientOptions } from './rpc-client.ts';

/** The probed upstream. */
type Probed = Pick<RpcClientOptions, 'transport' | 'signal'>;

const TIMEOUT_MS = 3_000;
const MAX_METADATA_BYTES = 64 * 1024;
const MAX_SERVERS = 2;
const UNAUTHORIZED = 401;
const METADATA = '/.well-known/oauth-protected-resource';

/**
 * Returns the error of an upstream that requires a login with the authorization servers that its metadata name (RFC 9728,
 * "OAuth 2.0 Protected Resource Metadata"), and any other error as it is. Requests go to the origin of the upstream only. Never
 * rejects.
 */
export async function withAuthorizationServers(error: UpstreamError, upstream: Probed): Promise<UpstreamError> {
  if (error.status !== UNAUTHORIZED) return error;
  const servers = await authorizationServers(upstream);
  if (servers.length === 0) return error;
  const remedy =
    `it requires a token of the authorization server ${servers.join(' or ')}: get one there, and set it in "headers" of the ` +
    'forward (Authorization: Bearer …)';
  return error.withMessage(error.what, remedy);
}

/** The metadata are at the path of the resource below the well-known one, or at the root. */
async function authorizationServers({ transport, signal }: Probed): Promise<string[]> {
  const { pathname } = new URL(transport.address);
  for (const path of new Set([`${METADATA}${pathname.replace(/\/$/, '')}`, METADATA])) {
    const request = { method: 'GET', path, headers: ['Accept', 'application/json'] };
    const options = { maxBytes: MAX_METADATA_BYTES, timeoutMs: TIMEOUT_MS, signal };
    const response = await collectResponse(transport, request, options).catch(() => undefined);
    const found = response?.status === 200 ? serversIn(response.body.toString()) : [];
    if (found.length > 0) return found;
  }
  return [];
}

function serversIn(text: string): string[] {
  const metadata = tryParseJson(text);
  const listed = isJsonObject(metadata) ? metadata.authorization_servers : undefined;
  if (!Array.isArray(listed)) return [];
  return listed.slice(0, MAX_SERVERS).flatMap((server) => {
    const url = typeof server === 'string' ? URL.parse(server) : null;
    return url !== null && /^https?:$/.test(url.protocol) ? [quoted(displayAddress(url).replace(/\/$/, ''))] : [];
  });
}

/** Returns whether an error proves that its upstream supports the modern era. */
export function provesModern({ code }: UpstreamError): boolean {
  return code !== undefined && MODERN_ERROR_CODES.has(code);
}

/** Returns the error of an upstream that cannot be used in any era, which these errors rule out. Never rejects. */
export async function noEraError(
  upstream: Probed,
  { legacy, modern }: Readonly<Record<Era, UpstreamError | undefined>>,
): Promise<UpstreamError> {
  const { address } = upstream.transport;
  const proof = [modern, legacy].find((error) => error && provesModern(error));
  if (proof) return rejectingModernError(address, proof);
  if (await usesSseTransport(upstream)) {
    const what = 'is an MCP server with the HTTP+SSE transport of 2024-11-05, which is not supported';
    const remedy =
      'use its Streamable HTTP address (often /mcp), or put a bridge in front of it (docs/other-transports.md)';
    return new UpstreamError('invalid', address, what, { remedy });
  }
  const isSame = legacy?.status !== undefined && legacy.status === modern?.status;
  const errors = (isSame ? [legacy] : [legacy, modern]).filter((error) => error !== undefined);
  const reasons = new Set(errors.map(({ what }) => `it ${what}`));
  const remedies = new Set(errors.flatMap(({ remedy }) => remedy ?? []));
  const remedy = remedies.size > 0 ? [...remedies].join(', or ') : undefined;
  const what = `is not an MCP server: ${[...reasons].join('; ')}`;
  return new UpstreamError('invalid', address, what, { cause: legacy, remedy });
}

/** Error for an upstream that has proved the modern era by this error, and cannot be used in it. */
function rejectingModernError(address: string, proof: UpstreamError): UpstreamError {
  const supported = isJsonObject(proof.data) ? proof.data.supported : undefined;
  const versions = Array.isArray(supported) ? supported.filter((version) => typeof version === 'string') : [];
  const isKnown = versions.some((version) => MODERN_VERSIONS.includes(version) || LEGACY_VERSIONS.includes(version));
  const what =
    versions.length > 0 && !isKnown
      ? `supports only unknown versions of MCP: ${quoted(versions.join(', '))}`
      : `supports the modern era of MCP but rejects requests: it ${proof.what}`;
  const remedy = 'update the upstream, or Sluice';
  return new UpstreamError('invalid', address, what, { cause: proof, remedy });
}

/** Bytes in which the first event of an event stream is found. */
const MAX_FIRST_BYTES = 4 * 1024;
const ENDPOINT = /^event: ?endpoint\r?$/m;

/**
 * Whether a server uses the HTTP+SSE transport of version 2024-11-05, which Streamable HTTP has replaced: its event stream begins
 * with the address for messages. Never rejects.
 */
async function usesSseTransport({ transport, signal }: Probed): Promise<boolean> {
  let start = '';
  const read = (chunk: Buffer): boolean => {
    start += chunk.toString('latin1');
    return ENDPOINT.test(start) || start.length > MAX_FIRST_BYTES;
  };
  const onHead = (status: number, headers: ResponseHeaders) =>
    status === 200 && mediaType(headers) === 'text/event-stream' ? read : undefined;
  const request = { method: 'GET', headers: ['Accept', 'text/event-stream'] };
  const options = { maxBytes: MAX_FIRST_BYTES, timeoutMs: TIMEOUT_MS, signal, onHead };
  await collectResponse(transport, request, options).catch(() => undefined);
  return ENDPOINT.test(start);
}

import { isJsonObject, tryParseJson } from '@sluice/protocol/json/parse';
import type { UpstreamTransport } from '../../http/client/client.ts';
import { collectResponse } from '../../http/client/collect-response.ts';
import { displayAddress, quoted, type UpstreamError } from '../../http/client/errors.ts';

const TIMEOUT_MS = 3_000;
const MAX_BYTES = 64 * 1024;
const MAX_SHOWN = 2;
const UNAUTHORIZED = 401;
const METADATA = '/.well-known/oauth-protected-resource';

/**
 * Returns the error of an upstream that requires a login with the authorization servers that its metadata name (RFC 9728,
 * "OAuth 2.0 Protected Resource Metadata"), and any other error as it is. Requests go to the origin of the upstream only. Never
 * rejects.
 */
export async function withAuthorizationServers(
  error: UpstreamError,
  transport: UpstreamTransport,
  signal?: AbortSignal,
): Promise<UpstreamError> {
  if (error.status !== UNAUTHORIZED) return error;
  const servers = await authorizationServers(transport, signal);
  if (servers.length === 0) return error;
  const remedy =
    `it requires a token of the authorization server ${servers.join(' or ')}: get one there, and set it in "headers" of the ` +
    'forward (Authorization: Bearer …)';
  return error.withMessage(error.what, remedy);
}

/** The metadata are at the path of the resource below the well-known one, or at the root. */
async function authorizationServers(transport: UpstreamTransport, signal?: AbortSignal): Promise<string[]> {
  const { pathname } = new URL(transport.address);
  for (const path of new Set([`${METADATA}${pathname.replace(/\/$/, '')}`, METADATA])) {
    const request = { method: 'GET', path, headers: ['Accept', 'application/json'] };
    const options = { maxBytes: MAX_BYTES, timeoutMs: TIMEOUT_MS, signal };
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
  return listed.slice(0, MAX_SHOWN).flatMap((server) => {
    const url = typeof server === 'string' ? URL.parse(server) : null;
    return url !== null && /^https?:$/.test(url.protocol) ? [quoted(displayAddress(url).replace(/\/$/, ''))] : [];
  });
}

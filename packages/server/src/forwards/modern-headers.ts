import type { IncomingHttpHeaders } from 'node:http';
import { HEADER_METHOD, HEADER_NAME, HEADER_PARAM_PREFIX, NAME_PARAM } from '@sluice/protocol/mcp/constants';
import type { RequestMessage } from '@sluice/protocol/mcp/message';
import { encodeHeaderValue, type MirroredParams } from '@sluice/protocol/mcp/param-headers';

/**
 * The headers that mirror the body of a modern request, made anew for the upstream (2026-07-28, Streamable HTTP); `name`
 * is what the upstream calls the thing that is addressed, `params` what its tool declares. A client's `Mcp-Param-*` that
 * the tool does not declare are passed on, as the protocol demands of who does not recognise them, and so is its
 * `Mcp-Name` on a method that only the upstream knows: extensions say what stands in it.
 */
export function modernHeaders(
  message: RequestMessage,
  name: string,
  client: IncomingHttpHeaders,
  params: MirroredParams | undefined,
): string[] {
  const headers = [HEADER_METHOD, message.method];
  const clientName = client[HEADER_NAME];
  if (NAME_PARAM.has(message.method)) headers.push(HEADER_NAME, encodeHeaderValue(name));
  else if (typeof clientName === 'string') headers.push(HEADER_NAME, clientName);
  if (params) headers.push(...params.headersFor(message));
  for (const header of Object.keys(client)) {
    if (!header.startsWith(HEADER_PARAM_PREFIX) || params?.has(header)) continue;
    const value = client[header];
    if (typeof value === 'string') headers.push(header, value);
  }
  return headers;
}

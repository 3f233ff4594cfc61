import { randomUUID } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';

/** The id that a call carries to its service: the client's `x-request-id`, else a new one (decisions 4.10). */
export function requestIdOf(headers: IncomingHttpHeaders): string {
  const { 'x-request-id': given } = headers;
  // Metadata of gRPC takes printable ASCII only.
  return typeof given === 'string' && /^[\x20-\x7e]{1,256}$/.test(given) ? given : randomUUID();
}

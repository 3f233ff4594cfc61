import { randomUUID } from 'node:crypto';

/** The id that a call carries to its service: `given`, the client's `x-request-id`, else a new one (decisions 4.10). */
export function serviceRequestId(given: string | undefined): string {
  // Metadata of gRPC takes printable ASCII only.
  return given !== undefined && /^[\x20-\x7e]+$/.test(given) ? given : randomUUID();
}

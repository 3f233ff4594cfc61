import type { IncomingHttpHeaders } from 'node:http';

/** True for a request that says that it has a body, which may turn out to be empty (RFC 9112 6.3). */
export function announcesBody({
  'content-length': length,
  'transfer-encoding': encoding,
}: Pick<IncomingHttpHeaders, 'content-length' | 'transfer-encoding'>): boolean {
  return encoding !== undefined || (length !== undefined && Number(length) !== 0);
}

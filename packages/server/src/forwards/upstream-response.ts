import type { ResponseHeaders } from '../transport/transport.ts';

/** The media type of a response without parameters, lower case; empty when there is none. */
export function contentType(headers: ResponseHeaders): string {
  const value = headers['content-type'];
  // The two spellings that nearly every answer has cost nothing.
  if (value === 'application/json' || value === 'text/event-stream') return value;
  return typeof value === 'string' ? (value.split(';', 1)[0] ?? '').trim().toLowerCase() : '';
}

/**
 * True for the statuses that say nothing about what a server speaks: 401, 403, 429 and 5xx (mcp 4). Whatever stands in
 * front of a server sends them as well.
 */
export function decidesNothing(status: number): boolean {
  return status >= 500 || status === 401 || status === 403 || status === 429;
}

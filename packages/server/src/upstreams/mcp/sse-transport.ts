import type { ResponseHeaders, UpstreamTransport } from '../../http/client/client.ts';
import { collectResponse } from '../../http/client/collect-response.ts';
import { mediaType } from '../../http/client/response-parser.ts';

const TIMEOUT_MS = 3_000;
const MAX_BYTES = 4 * 1024;
const ENDPOINT = /^event: ?endpoint\r?$/m;

/**
 * Returns whether a server uses the HTTP+SSE transport of version 2024-11-05, which Streamable HTTP has replaced: its event
 * stream begins with the address for messages. Never rejects.
 */
export async function usesSseTransport(transport: UpstreamTransport, signal?: AbortSignal): Promise<boolean> {
  let start = '';
  const read = (chunk: Buffer): boolean => {
    start += chunk.toString('latin1');
    return ENDPOINT.test(start) || start.length > MAX_BYTES;
  };
  const onHead = (status: number, headers: ResponseHeaders) =>
    status === 200 && mediaType(headers) === 'text/event-stream' ? read : undefined;
  const request = { method: 'GET', headers: ['Accept', 'text/event-stream'] };
  const options = { maxBytes: MAX_BYTES, timeoutMs: TIMEOUT_MS, signal, onHead };
  await collectResponse(transport, request, options).catch(() => undefined);
  return ENDPOINT.test(start);
}

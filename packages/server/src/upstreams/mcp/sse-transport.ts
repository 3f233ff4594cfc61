import { EventStreamDecoder } from '@sluice/protocol/mcp/event-stream';
import type { UpstreamTransport } from '../../http/client/client.ts';
import { collectResponse } from '../../http/client/collect-response.ts';
import { mediaType } from '../../http/client/response-parser.ts';

const TIMEOUT_MS = 3_000;
const MAX_BYTES = 64 * 1024;

/**
 * Returns whether a server uses the HTTP+SSE transport of version 2024-11-05, which Streamable HTTP has replaced: its event
 * stream begins with the address for messages. Never rejects.
 */
export async function usesSseTransport(transport: UpstreamTransport, signal?: AbortSignal): Promise<boolean> {
  let isEndpoint: boolean | undefined;
  const decoder = new EventStreamDecoder(
    {
      onEvent: ({ event }) => {
        isEndpoint ??= event === 'endpoint';
      },
      onEventError: () => {
        isEndpoint ??= false;
      },
    },
    MAX_BYTES,
  );
  const options = {
    maxBytes: MAX_BYTES,
    timeoutMs: TIMEOUT_MS,
    signal,
    onHead: (status: number, headers: Parameters<typeof mediaType>[0]) => {
      if (status !== 200 || mediaType(headers) !== 'text/event-stream') return undefined;
      return (chunk: Buffer): boolean => {
        decoder.write(chunk);
        return isEndpoint !== undefined;
      };
    },
  };
  await collectResponse(transport, { method: 'GET', headers: ['Accept', 'text/event-stream'] }, options).catch(
    () => undefined,
  );
  return isEndpoint === true;
}

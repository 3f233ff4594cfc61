import { ChunkBuffer } from '@sluice/protocol/chunk-buffer';
import type { ResponseHeaders, UpstreamRequest, UpstreamTransport } from './client.ts';
import { abortError, UpstreamError } from './errors.ts';
import { ResponseStream, type StreamedHead } from './response-stream.ts';

/** Limits of a request whose response is collected. */
export interface CollectOptions {
  /** Bytes of the body; a larger one fails as `too-large`. */
  readonly maxBytes: number;
  /** Bytes of a body with status 300 or higher, where the excess is discarded (default: `maxBytes` applies). */
  readonly maxErrorBytes?: number;
  /** Milliseconds for the whole request. */
  readonly timeoutMs: number;
  /** Aborts the request, which fails with the reason if that is an {@link UpstreamError}. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Inspects the head of the response. If it throws, the request is aborted and fails with that error; a reader that it
   * returns receives the body in place of the buffer.
   */
  readonly onHead?: (status: number, headers: ResponseHeaders) => BodyReader | undefined;
}

/** Reads a body as it arrives; returns true as soon as it needs no more. If it throws, the request fails with that error. */
export type BodyReader = (chunk: Buffer) => boolean;

/** A collected response. */
export interface CollectedResponse extends StreamedHead {
  /** Empty when a {@link BodyReader} has consumed it. */
  readonly body: Buffer;
}

/** Sends one request and collects its response within limits. Rejects with an {@link UpstreamError}. */
export async function collectResponse(
  transport: UpstreamTransport,
  request: UpstreamRequest,
  options: CollectOptions,
): Promise<CollectedResponse> {
  const { timeoutMs, signal } = options;
  const { address } = transport;
  if (signal?.aborted) throw abortError(address, signal);
  const stream = new ResponseStream(transport, request);
  const onAbort = () => stream.destroy(abortError(address, signal));
  signal?.addEventListener('abort', onAbort);
  const timer = setTimeout(() => {
    stream.destroy(new UpstreamError('timeout', address, `did not answer within ${timeoutMs / 1000} s`));
  }, timeoutMs);
  try {
    return await collected(stream, address, options);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', onAbort);
    stream.destroy();
  }
}

async function collected(
  stream: ResponseStream,
  address: string,
  { maxBytes, maxErrorBytes, onHead }: CollectOptions,
): Promise<CollectedResponse> {
  const { status, headers } = await stream.head;
  const reader = onHead?.(status, headers);
  const body = new ChunkBuffer();
  let bytes = 0;
  for await (const chunk of stream) {
    bytes += chunk.length;
    if (maxErrorBytes !== undefined && status >= 300 && bytes > maxErrorBytes) break;
    if (bytes > maxBytes) {
      throw new UpstreamError('too-large', address, `answered with more than ${maxBytes} bytes`, { status });
    }
    if (reader === undefined) body.push(chunk);
    else if (reader(chunk)) break;
  }
  return { status, headers, body: body.concat() };
}

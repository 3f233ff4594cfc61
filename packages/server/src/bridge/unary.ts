import { setTimeout as wait } from 'node:timers/promises';
import { type Client, Metadata, type MethodDefinition, type ServiceError as StatusError, status } from '@grpc/grpc-js';

/** Settings of calls to capability services (`service.bridge.grpc.*`; decisions 1.2, 8). */
export interface CallSettings {
  /** Milliseconds for each attempt. */
  readonly timeoutMs: number;
  /** Attempts after the first one. */
  readonly maxRetries: number;
  /** Milliseconds before the second attempt; each further one waits twice as long. */
  readonly retryDelayMs: number;
}

/** What a timer takes; beyond it Node fires at once. */
export const LONGEST_WAIT_MS = 2 ** 31 - 1;

/** One call, as its caller knows it. */
export interface Call {
  /** Goes along as `x-service-request-id`. */
  readonly requestId: string;
  /** Ends the call at the service. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Calls a method that takes one message and gives one. An attempt that finds the service unavailable is repeated, by
 * default after 100, 200 and 400 ms; all else is not (decisions 4.10). Rejects with the status of the last attempt.
 */
export async function callUnary<Request, Reply>(
  client: Client,
  method: MethodDefinition<Request, Reply>,
  request: Request,
  call: Call,
  { timeoutMs, maxRetries, retryDelayMs }: CallSettings,
): Promise<Reply> {
  let unavailable: unknown;
  for (let attempt = 0; ; attempt++) {
    try {
      return await attemptUnary(client, method, request, call, timeoutMs);
    } catch (error) {
      // Of a channel that was closed in between, the library says no more than that it was.
      if (attempt > 0 && !isStatusError(error)) throw unavailable;
      if (attempt >= maxRetries || statusOf(error) !== status.UNAVAILABLE || call.signal?.aborted) throw error;
      unavailable = error;
    }
    await wait(Math.min(retryDelayMs * 2 ** attempt, LONGEST_WAIT_MS), undefined, { signal: call.signal });
  }
}

function attemptUnary<Request, Reply>(
  client: Client,
  { path, requestSerialize, responseDeserialize }: MethodDefinition<Request, Reply>,
  request: Request,
  { requestId, signal }: Call,
  timeoutMs: number,
): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const cancel = (): void => call.cancel();
    const call = client.makeUnaryRequest(
      path,
      requestSerialize,
      responseDeserialize,
      request,
      metadataOf(requestId),
      { deadline: Date.now() + timeoutMs },
      (error, reply) => {
        signal?.removeEventListener('abort', cancel);
        if (reply !== undefined) resolve(reply);
        else reject(error ?? new Error('the call ended without a reply'));
      },
    );
    signal?.addEventListener('abort', cancel, { once: true });
    if (signal?.aborted) cancel();
  });
}

/** What goes along with every call (decisions 4.10). */
export function metadataOf(requestId: string): Metadata {
  const metadata = new Metadata();
  metadata.set('x-service-request-id', requestId);
  return metadata;
}

/** The gRPC status of a failed call; undefined when it failed otherwise. */
export function statusOf(error: unknown): status | undefined {
  return isStatusError(error) ? error.code : undefined;
}

/** True for what the library rejects calls with. */
export function isStatusError(error: unknown): error is StatusError {
  return error instanceof Error && 'code' in error && typeof error.code === 'number' && 'details' in error;
}

import { setTimeout as wait } from 'node:timers/promises';
import { type Client, Metadata, type MethodDefinition, type ServiceError as StatusError, status } from '@grpc/grpc-js';
import { LONGEST_TIMER_MS } from '../../http/timers.ts';
import { type TraceContext, traceParent } from '../../telemetry/tracing/trace-context.ts';

/** Settings of calls to capability services (`service.bridge.grpc.*`; decisions 1.2, 8). */
export interface CallSettings {
  /** Milliseconds for each attempt. */
  readonly timeoutMs: number;
  /** Attempts after the first one. */
  readonly maxRetries: number;
  /** Milliseconds before the second attempt; each further one waits twice as long. */
  readonly retryDelayMs: number;
}

/** One call, as its caller knows it. */
export interface Call {
  /** Goes along as `x-service-request-id`. */
  readonly requestId: string;
  /** Where the call stands in a trace; goes along as W3C trace context. */
  readonly trace?: TraceContext | undefined;
  /** Ends the call at the service. */
  readonly signal?: AbortSignal | undefined;
}

/** What goes along with every call (decisions 4.10). */
export function metadataOf({ requestId, trace }: Call): Metadata {
  const metadata = new Metadata();
  metadata.set('x-service-request-id', requestId);
  if (trace) {
    metadata.set('traceparent', traceParent(trace));
    if (trace.state !== undefined) metadata.set('tracestate', trace.state);
  }
  return metadata;
}

/** The gRPC status of a failed call; undefined when it failed otherwise. */
export function statusOf(error: unknown): status | undefined {
  return isStatusError(error) ? error.code : undefined;
}

/** The name of a status; of one that has none, its number. */
export function statusName(code: status): string {
  return status[code] ?? String(code);
}

/** True for what the library rejects calls with. */
export function isStatusError(error: unknown): error is StatusError {
  return error instanceof Error && 'code' in error && typeof error.code === 'number' && 'details' in error;
}

/** What a failed call says of itself besides its status; the service may have written it. */
export function detailsOf({ details }: StatusError): string {
  // The library adds a note of name resolution, which mostly has nothing in it.
  return details.replace(/\.? Resolution note: $/, '');
}

/**
 * Which failed attempts of a call are followed by another one: those that found the service unavailable, by default after
 * 100, 200 and 400 ms (decisions 4.10).
 */
export class RetryPolicy {
  readonly #settings: Pick<CallSettings, 'maxRetries' | 'retryDelayMs'>;
  readonly #signal: AbortSignal | undefined;
  #made = 0;
  #unavailable: unknown;

  /** The signal says when nobody waits for the call any more. */
  constructor(settings: Pick<CallSettings, 'maxRetries' | 'retryDelayMs'>, signal: AbortSignal | undefined) {
    this.#settings = settings;
    this.#signal = signal;
  }

  /** Resolves when the next attempt is due; rejects with what the call failed of where there is none. */
  async after(error: unknown): Promise<void> {
    const { maxRetries, retryDelayMs } = this.#settings;
    // Of a channel that was closed in between, the library says no more than that it was.
    if (this.#made > 0 && !isStatusError(error)) throw this.#unavailable;
    if (this.#made >= maxRetries || statusOf(error) !== status.UNAVAILABLE || this.#signal?.aborted) throw error;
    this.#unavailable = error;
    const delayMs = Math.min(retryDelayMs * 2 ** this.#made++, LONGEST_TIMER_MS);
    await wait(delayMs, undefined, { signal: this.#signal });
  }
}

/**
 * Calls a method that takes one message and gives one, anew while the service is unavailable ({@link RetryPolicy}). Rejects
 * with the status of the last attempt.
 */
export async function callUnary<Request, Reply>(
  client: Client,
  method: MethodDefinition<Request, Reply>,
  request: Request,
  call: Call,
  settings: CallSettings,
): Promise<Reply> {
  const retries = new RetryPolicy(settings, call.signal);
  for (;;) {
    try {
      return await attempt(client, method, request, call, settings.timeoutMs);
    } catch (error) {
      await retries.after(error);
    }
  }
}

function attempt<Request, Reply>(
  client: Client,
  { path, requestSerialize, responseDeserialize }: MethodDefinition<Request, Reply>,
  request: Request,
  call: Call,
  timeoutMs: number,
): Promise<Reply> {
  const { signal } = call;
  return new Promise((resolve, reject) => {
    const cancel = (): void => started.cancel();
    const started = client.makeUnaryRequest(
      path,
      requestSerialize,
      responseDeserialize,
      request,
      metadataOf(call),
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

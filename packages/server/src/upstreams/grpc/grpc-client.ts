import { setTimeout as wait } from 'node:timers/promises';
import { type Client, Metadata, type MethodDefinition } from '@grpc/grpc-js';
import { MAX_TIMER_MS } from '../../http/settings.ts';
import { type TraceContext, traceParent } from '../../telemetry/tracing/trace-context.ts';
import { isStatusError, status, statusCode } from './status.ts';

/** Settings of calls to capability services (`service.bridge.grpc.*`). */
export interface CallSettings {
  /** Milliseconds for each attempt. */
  readonly timeoutMs: number;
  /** Attempts after the first one. */
  readonly maxRetries: number;
  /** Milliseconds before the second attempt; each further one waits twice as long. */
  readonly retryDelayMs: number;
}

/** Request id, trace and cancellation of one call. */
export interface CallMetadata {
  /** Sent as `x-service-request-id`. */
  readonly requestId: string;
  /** Sent as W3C trace context. */
  readonly trace?: TraceContext | undefined;
  /** Cancels the call at the service. */
  readonly signal?: AbortSignal | undefined;
}

function createMetadata({ requestId, trace }: CallMetadata): Metadata {
  const metadata = new Metadata();
  metadata.set('x-service-request-id', requestId);
  if (trace) {
    metadata.set('traceparent', traceParent(trace));
    if (trace.state !== undefined) metadata.set('tracestate', trace.state);
  }
  return metadata;
}

/**
 * Creates the function that waits for the next attempt of a call while the service is unavailable, by default 100, 200 and 400 ms:
 * exact delays without jitter, unlike those of upstream reconnects. It rejects with the error of the call if there is no further
 * attempt; `signal` cancels the wait.
 */
function retryPolicy(
  { maxRetries, retryDelayMs }: Pick<CallSettings, 'maxRetries' | 'retryDelayMs'>,
  signal: AbortSignal | undefined,
): (error: unknown) => Promise<void> {
  let retries = 0;
  let unavailable: unknown;
  return async (error) => {
    // For a channel that was closed meanwhile the library reports only that: the previous status is more helpful.
    if (retries > 0 && !isStatusError(error)) throw unavailable;
    if (retries >= maxRetries || statusCode(error) !== status.UNAVAILABLE || signal?.aborted) throw error;
    unavailable = error;
    await wait(Math.min(retryDelayMs * 2 ** retries++, MAX_TIMER_MS), undefined, { signal });
  };
}

/**
 * Calls a unary method, with retries while the service is unavailable ({@link retryPolicy}). Rejects with the status of the
 * last attempt.
 */
export async function callUnary<Request, Reply>(
  client: Client,
  method: MethodDefinition<Request, Reply>,
  request: Request,
  call: CallMetadata,
  settings: CallSettings,
): Promise<Reply> {
  const retry = retryPolicy(settings, call.signal);
  for (;;) {
    try {
      return await attempt(client, method, request, call, settings.timeoutMs);
    } catch (error) {
      await retry(error);
    }
  }
}

function attempt<Request, Reply>(
  client: Client,
  { path, requestSerialize, responseDeserialize }: MethodDefinition<Request, Reply>,
  request: Request,
  call: CallMetadata,
  timeoutMs: number,
): Promise<Reply> {
  const { signal } = call;
  return new Promise((resolve, reject) => {
    const cancel = (): void => started.cancel();
    const started = client.makeUnaryRequest(
      path,
      requestSerialize,
      (bytes) => responseDeserialize(withBoundedFields(bytes)),
      request,
      createMetadata(call),
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

/** Maximum number of fields of a reply: 4 MiB of empty strings would block the event loop for half a second. */
const MAX_REPLY_FIELDS = 50_000;

/** Returns the encoded reply. Throws if it has too many fields; a malformed one is left to the decoder. */
function withBoundedFields(bytes: Buffer): Buffer {
  let at = 0;
  for (let fields = 0; at < bytes.length; fields++) {
    if (fields === MAX_REPLY_FIELDS) throw new Error(`the reply has more than ${MAX_REPLY_FIELDS} fields`);
    const wireType = (bytes[at] ?? 0) & 7;
    at = endOfVarint(bytes, at);
    if (wireType === 0) at = endOfVarint(bytes, at);
    else if (wireType === 1) at += 8;
    else if (wireType === 5) at += 4;
    else if (wireType === 2) at = endOfVarint(bytes, at) + varint(bytes, at);
    else break;
  }
  return bytes;
}

function endOfVarint(bytes: Buffer, at: number): number {
  let end = at;
  while (end < bytes.length && (bytes[end] ?? 0) >= 0x80) end++;
  return end + 1;
}

/** The length at `at`, which is at most that of a message. */
function varint(bytes: Buffer, at: number): number {
  let value = 0;
  for (let shift = 0; shift < 28; shift += 7) {
    const byte = bytes[at + shift / 7] ?? 0;
    value += (byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  return bytes.length;
}

/** Settings of a {@link callStream}. */
export interface StreamSettings extends Pick<CallSettings, 'maxRetries' | 'retryDelayMs'> {
  /** Milliseconds for each attempt, from the start to the last message. */
  readonly deadlineMs: number;
}

/**
 * Calls a server-streaming method. The stream is read with backpressure and canceled at the service when the loop over it is
 * left. Retried while the service is unavailable ({@link retryPolicy}), but not after the first message: the code has started.
 * Throws the status of the last attempt.
 */
export async function* callStream<Request, Reply>(
  client: Client,
  method: MethodDefinition<Request, Reply>,
  request: Request,
  call: CallMetadata,
  settings: StreamSettings,
): AsyncGenerator<Reply, void, undefined> {
  const retry = retryPolicy(settings, call.signal);
  for (;;) {
    let hasStarted = false;
    try {
      for await (const reply of attemptStream(client, method, request, call, settings.deadlineMs)) {
        hasStarted = true;
        yield reply;
      }
      return;
    } catch (error) {
      if (hasStarted) throw error;
      await retry(error);
    }
  }
}

async function* attemptStream<Request, Reply>(
  client: Client,
  { path, requestSerialize, responseDeserialize }: MethodDefinition<Request, Reply>,
  request: Request,
  call: CallMetadata,
  deadlineMs: number,
): AsyncGenerator<Reply, void, undefined> {
  const { signal } = call;
  const stream = client.makeServerStreamRequest(
    path,
    requestSerialize,
    (bytes) => responseDeserialize(withBoundedFields(bytes)),
    request,
    createMetadata(call),
    { deadline: Date.now() + deadlineMs },
  );
  // The loop below throws errors; a later one is the cancellation.
  stream.on('error', () => undefined);
  const cancel = (): void => stream.cancel();
  signal?.addEventListener('abort', cancel, { once: true });
  if (signal?.aborted) cancel();
  try {
    for await (const reply of stream) yield reply;
  } finally {
    signal?.removeEventListener('abort', cancel);
    cancel();
  }
}

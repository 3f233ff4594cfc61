import type { Client, MethodDefinition } from '@grpc/grpc-js';
import { type Call, type CallSettings, metadataOf } from './grpc-call.ts';
import { Retries } from './retries.ts';

/** How long a stream may go on after the time that its code was given, in milliseconds (decisions 4.10). */
export const GRACE_MS = 5_000;

/** Settings of an execution's stream. */
export interface StreamSettings extends Pick<CallSettings, 'maxRetries' | 'retryDelayMs'> {
  /** Milliseconds for each attempt, from its beginning to its last message. */
  readonly deadlineMs: number;
}

/**
 * Calls a method that takes one message and gives a stream of them. It is read no faster than the loop over it runs, and
 * ended at the service when that is left. It is called anew while the service is unavailable ({@link Retries}), but not
 * once a message was here: the code has begun (decisions 4.10). Throws the status of the last attempt.
 */
export async function* callStream<Request, Reply>(
  client: Client,
  method: MethodDefinition<Request, Reply>,
  request: Request,
  call: Call,
  settings: StreamSettings,
): AsyncGenerator<Reply, void, undefined> {
  const retries = new Retries(settings, call.signal);
  for (;;) {
    let begun = false;
    try {
      for await (const reply of attemptStream(client, method, request, call, settings.deadlineMs)) {
        begun = true;
        yield reply;
      }
      return;
    } catch (error) {
      if (begun) throw error;
      await retries.after(error);
    }
  }
}

async function* attemptStream<Request, Reply>(
  client: Client,
  { path, requestSerialize, responseDeserialize }: MethodDefinition<Request, Reply>,
  request: Request,
  call: Call,
  deadlineMs: number,
): AsyncGenerator<Reply, void, undefined> {
  const { signal } = call;
  const stream = client.makeServerStreamRequest(
    path,
    requestSerialize,
    responseDeserialize,
    request,
    metadataOf(call),
    { deadline: Date.now() + deadlineMs },
  );
  // The loop below hears of an error; one that comes after the loop was left is the cancellation, and nobody's concern.
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

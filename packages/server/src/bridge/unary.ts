import type { Client, MethodDefinition } from '@grpc/grpc-js';
import { type Call, type CallSettings, metadataOf } from './grpc-call.ts';
import { Retries } from './retries.ts';

/**
 * Calls a method that takes one message and gives one, anew while the service is unavailable ({@link Retries}). Rejects
 * with the status of the last attempt.
 */
export async function callUnary<Request, Reply>(
  client: Client,
  method: MethodDefinition<Request, Reply>,
  request: Request,
  call: Call,
  settings: CallSettings,
): Promise<Reply> {
  const retries = new Retries(settings, call.signal);
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

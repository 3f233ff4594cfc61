import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';

const LINES = createInterface({ input: process.stdin });
const STEP_MS = 20_000;

/** Runs a step of a client's scenario and prints its line of the transcript: what it returns, or its error. */
export async function step(name: string, run: () => Promise<unknown>): Promise<void> {
  const stop = new AbortController();
  const timeout = delay(STEP_MS, undefined, { signal: stop.signal }).then(() => {
    throw new Error(`no response after ${STEP_MS} ms`);
  });
  const outcome = await Promise.race([run(), timeout]).then((result) => ({ result: result ?? null }), failure);
  stop.abort();
  timeout.catch(() => undefined);
  console.log(JSON.stringify({ step: name, ...outcome }));
}

/** Prints that the server may be restarted, and waits until it has been. */
export async function restarted(): Promise<void> {
  console.log(JSON.stringify({ step: 'restart' }));
  await once(LINES, 'line');
}

/** Error of a call as the SDK reports it. */
export function failure(error: unknown): { readonly error: object } {
  const { code, message, data } = Object(error);
  return { error: { code, message, data } };
}

/** Reads a value until it is the expected one, at most for three seconds, and returns the last one. */
export async function settled<T>(read: () => Promise<T> | T, expected: (value: T) => boolean): Promise<T> {
  const deadline = performance.now() + 3_000;
  for (;;) {
    const value = await read();
    if (expected(value) || performance.now() >= deadline) return value;
    await delay(50);
  }
}

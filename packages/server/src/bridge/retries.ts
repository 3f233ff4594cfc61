import { setTimeout as wait } from 'node:timers/promises';
import { status } from '@grpc/grpc-js';
import { LONGEST_TIMER_MS } from '../longest-timer.ts';
import { type CallSettings, isStatusError, statusOf } from './grpc-call.ts';

/**
 * Which failed attempts of a call are followed by another one: those that found the service unavailable, by default after
 * 100, 200 and 400 ms (decisions 4.10).
 */
export class Retries {
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

import { Failure } from '../failure.ts';

/** Somebody was silent for too long. */
export class IdleTimeoutFailure extends Failure {
  override name = 'SilenceFailure';
}

/** An end to waiting for somebody who says nothing. */
export interface IdleGuard {
  /** Aborted, with the reason, when it has lasted too long. */
  readonly signal: AbortSignal;
  /** Hands on what the work comes to; the work is what is waited for. */
  readonly guard: <T>(work: Promise<T>) => Promise<T>;
}

/** A silence that may last for some milliseconds; without a number, for ever. */
export function createIdleGuard(ms: number | undefined, reason: () => Error): IdleGuard {
  const controller = new AbortController();
  return {
    signal: controller.signal,
    guard: async (work) => {
      if (ms === undefined) return work;
      const timer = setTimeout(() => controller.abort(reason()), ms);
      try {
        return await work;
      } finally {
        clearTimeout(timer);
      }
    },
  };
}

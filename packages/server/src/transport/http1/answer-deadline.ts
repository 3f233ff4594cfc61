/** Limits how long an upstream may leave one call waiting for the first byte of its answer (decisions 4.6). */
export class AnswerDeadline {
  readonly #afterMs: number;
  readonly #onPassed: () => void;
  #timer: NodeJS.Timeout | undefined = undefined;
  #over = false;

  constructor(afterMs: number, onPassed: () => void) {
    this.#afterMs = afterMs;
    this.#onPassed = onPassed;
  }

  /** It is the upstream's turn from now on; nothing changes when it was before. */
  start(): void {
    if (!this.#over) this.#timer ??= setTimeout(this.#onPassed, this.#afterMs);
  }

  /** It is our turn. */
  pause(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  /** The answer has begun, or the call is over. */
  end(): void {
    this.#over = true;
    this.pause();
  }
}

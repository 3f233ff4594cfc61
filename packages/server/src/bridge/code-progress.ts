import type { CallAnswer } from '../answer/call-answer.ts';

/**
 * Tells a client what its code puts out as it comes, as progress notifications: numbered from 1, the output as the
 * message (2025-11-25, "Progress"). Only for clients that asked for progress and read event streams.
 */
export class CodeProgress {
  readonly #client: CallAnswer;
  readonly #token: string | undefined;
  readonly #signal: AbortSignal;
  readonly #until: number;
  #told = 0;

  /**
   * `token` is JSON text, undefined when the client wants no progress; `signal` says that nobody reads any more. After
   * `forMs` nothing is told, and the client not waited for: the code's time is over, however slowly its output is read.
   */
  constructor(client: CallAnswer, token: string | undefined, signal: AbortSignal, forMs: number) {
    this.#client = client;
    this.#token = token;
    this.#signal = signal;
    this.#until = performance.now() + forMs;
  }

  /** Sends one notification. Resolves when the client can take the next one: what it does not read yet is not held here. */
  async tell(message: string): Promise<void> {
    if (this.#token === undefined || this.#signal.aborted || performance.now() >= this.#until) return;
    if (!this.#client.streaming) this.#client.beginStream();
    this.#told++;
    const params = `{"progressToken":${this.#token},"progress":${this.#told},"message":${JSON.stringify(message)}}`;
    const room = this.#client.event(`{"jsonrpc":"2.0","method":"notifications/progress","params":${params}}`);
    if (!room) await this.#drained();
  }

  #drained(): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        this.#signal.removeEventListener('abort', done);
        resolve();
      };
      const timer = setTimeout(done, this.#until - performance.now());
      this.#client.onDrain(done);
      this.#signal.addEventListener('abort', done, { once: true });
    });
  }
}

import type { IncomingMessage, ServerResponse } from 'node:http';
import { announcesBody } from './announced-body.ts';

/** What is done with a request whose body did not come in time, and with what there is of its answer. */
export type OnLateBody = (request: IncomingMessage, response: ServerResponse) => void;

/**
 * How long clients may take to send their bodies. A server's own `requestTimeout` holds for all its requests; this one
 * can be lifted for those whose bodies are passed on, which may take as long as they come (decisions 4.6).
 */
export class BodyDeadlines {
  readonly #afterMs: number;
  readonly #onLate: OnLateBody;
  readonly #timers = new WeakMap<IncomingMessage, NodeJS.Timeout>();

  constructor(afterMs: number, onLate: OnLateBody) {
    this.#afterMs = afterMs;
    this.#onLate = onLate;
  }

  /** Begins to count; nothing is counted for a request without a body. */
  watch(request: IncomingMessage, response: ServerResponse): void {
    if (!announcesBody(request.headers)) return;
    const timer = setTimeout(() => {
      // What nobody has read yet may all be there.
      if (!request.complete) this.#onLate(request, response);
    }, this.#afterMs);
    this.#timers.set(request, timer);
    request.once('close', () => clearTimeout(timer));
  }

  /** Lets this body take its time. */
  lift(request: IncomingMessage): void {
    clearTimeout(this.#timers.get(request));
  }
}

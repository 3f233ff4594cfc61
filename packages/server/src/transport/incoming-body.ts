import type { IncomingMessage } from 'node:http';
import type { BodySink, StreamedBody } from './transport.ts';

/** Told of every piece of a body after it has been passed on or read away. Must not change it, and not throw. */
export type BodyObserver = (piece: Buffer) => void;

/**
 * The body of a request that came in, to be sent on while it comes, with the length that it came with or in chunks;
 * undefined when it has none (RFC 9112 6.3). A client that leaves before the end of it ends the request upstream. What
 * is not wanted any more is read away, so that the client comes to read its answer.
 *
 * While the upstream takes nothing, nothing is read, and a socket that is not read does not say that its other end has
 * gone: who leaves then, with more on its way than the system's buffers hold, is missed once the upstream reads on, ends
 * the connection or is given up.
 */
export function incomingBody(request: IncomingMessage, observe?: BodyObserver): StreamedBody | undefined {
  const { 'content-length': length, 'transfer-encoding': encoding } = request.headers;
  if (length === undefined && encoding === undefined) return undefined;
  return new IncomingBody(request, length === undefined ? undefined : Number(length), observe);
}

class IncomingBody implements StreamedBody {
  readonly length: number | undefined;
  readonly #request: IncomingMessage;
  readonly #observe: BodyObserver | undefined;
  #sink: BodySink | undefined = undefined;
  #stopped = false;
  readonly #onData = (piece: Buffer) => {
    // Not when it was stopped by that very write.
    if (this.#sink?.write(piece) === false && this.#sink !== undefined) this.#request.pause();
    this.#observe?.(piece);
  };
  readonly #onEnd = () => {
    this.#detach();
    this.#sink?.end();
  };
  readonly #onClose = () => {
    this.#detach();
    this.#sink?.fail();
  };

  constructor(request: IncomingMessage, length: number | undefined, observe: BodyObserver | undefined) {
    this.#request = request;
    this.length = length;
    this.#observe = observe;
  }

  start(sink: BodySink): void {
    this.#sink = sink;
    // Who has left already says so no more.
    if (this.#request.destroyed) return sink.fail();
    this.#request.on('data', this.#onData).on('end', this.#onEnd).on('close', this.#onClose).resume();
  }

  resume(): void {
    this.#request.resume();
  }

  stop(): void {
    if (this.#stopped) return;
    this.#stopped = true;
    this.#detach();
    this.#sink = undefined;
    if (this.#observe) this.#request.on('data', this.#observe);
    this.#request.resume();
  }

  #detach(): void {
    this.#request.off('data', this.#onData).off('end', this.#onEnd).off('close', this.#onClose);
  }
}

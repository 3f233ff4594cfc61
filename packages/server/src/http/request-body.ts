import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { ResponseLike } from './context.ts';

/**
 * Collects the pieces of a body. A sender chooses how small they are, and a buffer object for each byte would cost
 * hundreds of times the bytes: so from the second piece on they are copied into one buffer that grows by doubling.
 * A body that comes in one piece, as most do, is not copied.
 */
export class ChunkBuffer {
  /** Bytes collected so far. */
  length = 0;
  #held: Buffer | undefined = undefined;
  #owned = false;

  push(piece: Buffer): void {
    const length = this.length + piece.length;
    if (this.#held === undefined) {
      this.#held = piece;
    } else {
      if (!this.#owned || this.#held.length < length) {
        const grown = Buffer.allocUnsafeSlow(Math.max(4096, length * 2));
        this.#held.copy(grown, 0, 0, this.length);
        this.#held = grown;
        this.#owned = true;
      }
      piece.copy(this.#held, this.length);
    }
    this.length = length;
  }

  /** All that was collected. Nothing may be pushed after this. */
  take(): Buffer {
    const held = this.#held ?? Buffer.alloc(0);
    this.#held = undefined;
    return held.subarray(0, this.length);
  }
}

/** Is told once what becomes of a body. */
export interface BodyHandler {
  onBody(body: Buffer): void;
  /** It is over the limit, as is said as soon as that is known. What is left of it is the taker's to read away. */
  onTooLarge(): void;
  /** The client left in the middle of it, or what it sent stopped being HTTP. */
  onError(error: Error): void;
}

/** Collects a request's body of up to `limit` bytes. */
export function collectBody(request: IncomingMessage, limit: number, taker: BodyHandler): void {
  if (Number(request.headers['content-length']) > limit) return taker.onTooLarge();
  const body = new ChunkBuffer();
  request.on('data', (piece: Buffer) => {
    if (body.length + piece.length <= limit) return body.push(piece);
    request.removeAllListeners('data').removeAllListeners('end');
    taker.onTooLarge();
  });
  request.on('end', () => taker.onBody(body.take()));
  request.on('error', (error) => taker.onError(error));
}

/** True for a request that says that it has a body, which may turn out to be empty (RFC 9112 6.3). */
export function hasBody({
  'content-length': length,
  'transfer-encoding': encoding,
}: Pick<IncomingHttpHeaders, 'content-length' | 'transfer-encoding'>): boolean {
  return encoding !== undefined || (length !== undefined && Number(length) !== 0);
}

/** How long a client may go on sending a body that was refused. */
const LINGER_MS = 2_000;

/**
 * To be called before an answer is written that does not wait for the request's body. Closing on a client that is still
 * sending would lose it the answer: for a while, the rest is read and thrown away. A connection that is to end with the
 * answer ends when that is done.
 */
export function drainRequestBody(request: IncomingMessage, response: Pick<ResponseLike, 'shouldKeepAlive'>): void {
  request.resume();
  if (request.complete || !hasBody(request.headers)) return;
  const closing = response.shouldKeepAlive === false;
  // Else Node would end the connection as soon as the answer is out.
  response.shouldKeepAlive = true;
  const late = setTimeout(() => request.destroy(), LINGER_MS);
  request.once('close', () => {
    clearTimeout(late);
    if (closing) request.socket.end();
  });
}

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
    if (!hasBody(request.headers)) return;
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

const CLIENT_LEFT = 499;

/** The status of an answer; of one that was never begun, since its client has left, the one that logs have for that. */
export function answeredStatus({
  headersSent,
  statusCode,
}: Pick<ServerResponse, 'headersSent' | 'statusCode'>): number {
  return headersSent ? statusCode : CLIENT_LEFT;
}

import { ChunkBuffer } from '@sluice/protocol/chunk-buffer';
import { type BodyBudget, type BodyReservation, SMALL_BODY_BYTES } from './body-budget.ts';
import type { ResponseLike } from './exchange.ts';
import type { QuotaOwner } from './quota.ts';
import type { ServerRequest } from './server/request.ts';
import type { RequestBody } from './server/request-body.ts';
import type { RequestHead } from './server/request-parser.ts';

/** Receives a body; one of its methods is called, unless the client disconnects or sends invalid HTTP. */
export interface BodyHandler {
  onBody(body: ChunkBuffer): void;
  /** The body exceeds the limit; called as soon as that is known. */
  onTooLarge(): void;
  /** There is no memory for the body, or a faster one of the same owner needs it. */
  onNoMemory(): void;
}

/** Memory for the bodies of requests. */
export interface BodyMemory {
  readonly budget: BodyBudget;
  /** Whose memory it is; called for larger bodies only. */
  owner(): QuotaOwner;
  /** Its end is the end of the request, which retains the body. */
  readonly response: Pick<ResponseLike, 'once'>;
}

/** Reads a request body of at most `limit` bytes; drains the rest of one that is refused. */
export function collectBody(request: ServerRequest, limit: number, memory: BodyMemory, handler: BodyHandler): void {
  const incoming = request.body;
  let body = new ChunkBuffer();
  let reservation: BodyReservation | undefined;
  let turnEnd = TURN_BYTES;
  const refuse = (reason: 'onTooLarge' | 'onNoMemory'): void => {
    incoming.off('data', onData).off('end', onEnd);
    body = new ChunkBuffer();
    drainRequestBody(request);
    handler[reason]();
  };
  const onData = (chunk: Buffer): void => {
    if (body.length + chunk.length > limit) return refuse('onTooLarge');
    body.push(chunk);
    if (body.length <= SMALL_BODY_BYTES) return;
    if (!reservation) {
      reservation = memory.budget.open(memory.owner(), () => refuse('onNoMemory'));
      memory.response.once('close', reservation.release);
    }
    if (!reservation.grow(body.capacity)) return refuse('onNoMemory');
    if (body.length < turnEnd) return;
    turnEnd = body.length + TURN_BYTES;
    readInNextTurn(incoming);
  };
  const onEnd = (): void => {
    reservation?.complete();
    handler.onBody(body);
  };
  if (request.head.contentLength > limit) return refuse('onTooLarge');
  incoming.on('data', onData).on('end', onEnd);
}

/** Bytes of a large body that are read in one turn of the event loop. */
const TURN_BYTES = 128 * 1024;

/**
 * Reads the rest of a large body from the next turn of the event loop on. Node.js would read up to 2 MiB of each connection in
 * one turn: many uploads at once would delay all other requests.
 */
function readInNextTurn(body: RequestBody): void {
  body.pause();
  setImmediate(() => body.resume());
}

/** Returns whether the head of a request announces a body that is not empty, as far as it says (RFC 9112 6.3). */
export function hasBody({ contentLength, chunked }: RequestHead): boolean {
  return chunked || contentLength > 0;
}

/** Time for which the body of a rejected request is drained, in milliseconds. */
const LINGER_MS = 2_000;

/**
 * Drains the body of a request whose response precedes its end, so that the client can send it before it reads the response.
 * Closes the connection of a client that takes too long.
 */
export function drainRequestBody({ body, head, socket }: ServerRequest): void {
  body.resume();
  if (body.complete || !hasBody(head)) return;
  body.on('data', () => readInNextTurn(body));
  const timeout = setTimeout(() => socket.destroy(), LINGER_MS);
  body.on('close', () => clearTimeout(timeout));
}

/**
 * Calls `onTimeout` when the body of a request is incomplete after `timeoutMs`. Unlike the timeout of the server, it is not for
 * requests with proxied bodies, which may take any time.
 */
export function setBodyTimeout({ body, head }: ServerRequest, timeoutMs: number, onTimeout: () => void): void {
  if (!hasBody(head)) return;
  const timer = setTimeout(() => {
    // The body may be complete although it has not been read.
    if (!body.complete) onTimeout();
  }, timeoutMs);
  body.on('close', () => clearTimeout(timer));
}

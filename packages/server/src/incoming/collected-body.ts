import type { IncomingMessage } from 'node:http';
import { ByteCollector } from '../bytes/collector.ts';

/** Is told once what becomes of a body. */
export interface BodyTaker {
  onBody(body: Buffer): void;
  /** It is over the limit, as is said as soon as that is known. What is left of it is the taker's to read away. */
  onTooLarge(): void;
  /** The client left in the middle of it, or what it sent stopped being HTTP. */
  onError(error: Error): void;
}

/** Collects a request's body of up to `limit` bytes. */
export function collectBody(request: IncomingMessage, limit: number, taker: BodyTaker): void {
  if (Number(request.headers['content-length']) > limit) return taker.onTooLarge();
  const body = new ByteCollector();
  request.on('data', (piece: Buffer) => {
    if (body.length + piece.length <= limit) return body.push(piece);
    request.removeAllListeners('data').removeAllListeners('end');
    taker.onTooLarge();
  });
  request.on('end', () => taker.onBody(body.take()));
  request.on('error', (error) => taker.onError(error));
}

import type { Socket } from 'node:net';
import type { BodySink, StreamedBody } from '../transport.ts';
import type { AnswerDeadline } from './answer-deadline.ts';

/** What is done when a body turns out not to be what it said: `how` completes "its body …". */
type OnFailure = (how: string) => void;

/**
 * Writes the body of one request on its connection, behind the head: as it is when its length is known, else in chunks
 * (RFC 9112 7.1). What is written is bounded by the socket: `write` says false when that has taken enough.
 */
export class BodyWriter implements BodySink {
  /** All of it is written, its last chunk included. */
  complete = false;
  readonly #socket: Socket;
  readonly #body: StreamedBody;
  readonly #deadline: AnswerDeadline | undefined;
  readonly #onFailure: OnFailure;
  /** Bytes of a known length that are still to come. */
  #remaining: number | undefined;
  /** Nothing has an effect any more. */
  #over = false;
  readonly #onDrain = () => {
    if (this.complete) return;
    this.#deadline?.pause();
    this.#body.resume();
  };

  constructor(socket: Socket, body: StreamedBody, deadline: AnswerDeadline | undefined, onFailure: OnFailure) {
    this.#socket = socket;
    this.#body = body;
    this.#deadline = deadline;
    this.#onFailure = onFailure;
    this.#remaining = body.length;
  }

  /** To be called when the head is written. */
  start(): void {
    this.#socket.on('drain', this.#onDrain);
    if (this.#remaining === 0) this.#completed();
    this.#body.start(this);
  }

  /** The request is over. Stops the body when it is not complete. */
  stop(): void {
    if (this.#over) return;
    this.#close();
    if (!this.complete) this.#body.stop();
  }

  write(piece: Buffer): boolean {
    if (this.#over) return false;
    // A chunk without bytes would be the last one.
    if (piece.length === 0) return !this.#socket.writableNeedDrain;
    const more = this.#remaining === undefined ? this.#writeChunk(piece) : this.#writePart(piece, this.#remaining);
    if (!more && !this.#over) this.#deadline?.start();
    return more;
  }

  end(): void {
    if (this.#over || this.complete) return;
    if (this.#remaining !== undefined) {
      const { length } = this.#body;
      return this.#fail(`ended ${this.#remaining} bytes before the ${length} that it was to have`);
    }
    this.#socket.write('0\r\n\r\n', 'latin1');
    this.#completed();
  }

  fail(): void {
    if (!this.#over && !this.complete) this.#fail('broke off');
  }

  #writeChunk(piece: Buffer): boolean {
    if (this.complete) return false;
    this.#socket.cork();
    this.#socket.write(`${piece.length.toString(16)}\r\n`, 'latin1');
    this.#socket.write(piece);
    const more = this.#socket.write('\r\n', 'latin1');
    this.#socket.uncork();
    return more;
  }

  #writePart(piece: Buffer, remaining: number): boolean {
    if (piece.length > remaining) {
      this.#fail(`is longer than the ${this.#body.length} bytes that it was to have`);
      this.#body.stop();
      return false;
    }
    this.#remaining = remaining - piece.length;
    const more = this.#socket.write(piece);
    if (this.#remaining > 0) return more;
    this.#completed();
    // There is nothing left to wait with, and who paused now would not be told to go on.
    return true;
  }

  #completed(): void {
    this.complete = true;
    this.#deadline?.start();
  }

  #fail(how: string): void {
    this.#close();
    this.#onFailure(how);
  }

  #close(): void {
    this.#over = true;
    this.#socket.off('drain', this.#onDrain);
  }
}

import { encodeMessage } from '@sluice/protocol/mcp/event-stream';
import type { ResponseLike } from '../http/exchange.ts';
import type { ResponseBody } from '../upstreams/response-sink.ts';

/** Begin and end of an event with a message. */
export const EVENT_START = 'event: message\ndata: ';
export const EVENT_END = '\n\n';

const LF = 10;
const CR = 13;
const SPACE = 32;

/** A body that was begun, and how it ends. */
export interface OpenBody extends ResponseBody {
  end(): void;
}

/** The event stream of a response, whose head was written. */
export interface ResponseStream {
  /** Whether the client can resume it on another connection. */
  readonly isIndependent: boolean;
  /** Sends an event id to resume from before the first message; undefined if the stream cannot be resumed. */
  sendInitialEventId?(): void;
  /** Sends a message. False if the client reads too slowly: wait for `onDrain`. */
  send(data: string): boolean;
  /** Begins the last message, whose parts are sent while they arrive, without line breaks. */
  beginLast(): OpenBody;
  /** Ends the stream, with its last message if there is one. One that was begun by `beginLast` is dropped with its connection. */
  end(data?: string): void;
  /** Calls back once when buffered data was sent, or the connection closed. */
  onDrain(listener: () => void): void;
  /** Collects messages until this is called with false, so that they are one write on the connection. */
  cork(isCorked: boolean): void;
  /** Sends a comment, so that the connection is not idle: not in a message, nor to a client that reads too slowly. */
  keepAlive(): void;
  /** Ends the connection but not the stream: the client is to reconnect in `retryMs`, if it can resume the stream. */
  disconnect(retryMs: number): void;
}

/** An event stream that ends with its connection. */
export class ConnectedStream implements ResponseStream {
  readonly isIndependent = false;
  readonly #response: ResponseLike;
  /** A comment could not be sent: the client reads too slowly. */
  #isBlocked = false;
  #hasLast = false;

  constructor(response: ResponseLike) {
    this.#response = response;
  }

  send(data: string): boolean {
    return this.#response.write(encodeMessage(data));
  }

  beginLast(): OpenBody {
    const response = this.#response;
    this.#hasLast = true;
    response.write(EVENT_START);
    return { write: (parts, onWritten) => writeParts(response, parts, onWritten), end: () => response.end(EVENT_END) };
  }

  end(data?: string): void {
    if (this.#hasLast) return void this.#response.destroy();
    if (data !== undefined) this.send(data);
    this.#response.end();
  }

  onDrain(listener: () => void): void {
    this.#response.once('drain', listener);
  }

  cork(isCorked: boolean): void {
    if (isCorked) this.#response.cork();
    else this.#response.uncork();
  }

  keepAlive(): void {
    if (this.#isBlocked || this.#hasLast || this.#response.write(':\n\n')) return;
    this.#isBlocked = true;
    this.onDrain(() => {
      this.#isBlocked = false;
    });
  }

  /** A stream that cannot be resumed stays connected. */
  disconnect(): void {}
}

/** Writes parts. `onWritten` is not called if the client disconnects before that. False if it reads too slowly. */
export function writeParts(response: ResponseLike, parts: readonly Buffer[], onWritten?: () => void): boolean {
  const last = parts.length - 1;
  for (const part of parts.slice(0, last)) response.write(part);
  return response.write(parts[last] ?? '', (error) => error || onWritten?.());
}

/** Returns a body whose parts have no line breaks. */
export function inOneLine(body: OpenBody): OpenBody {
  return { write: (parts, onWritten) => body.write(parts.map(toSingleLine), onWritten), end: () => body.end() };
}

/** Returns JSON without line breaks, which would end a line of an event: they can only be white space between values. */
export function toSingleLine(json: Buffer): Buffer {
  if (!json.includes(LF) && !json.includes(CR)) return json;
  const line = Buffer.from(json);
  // A search for each line break would take seconds if there is nothing else.
  for (let at = 0; at < line.length; at++) if (line[at] === LF || line[at] === CR) line[at] = SPACE;
  return line;
}

import { Readable } from 'node:stream';
import type { Authenticated } from '../identity/authenticator.ts';
import type { OpenStream, OpenStreams } from '../mcp/open-streams.ts';
import { OperationError } from '../registry/operation-error.ts';
import type { ApiResponse } from './responses.ts';
import type { ApiRequest } from './router.ts';

/** A request for a stream. */
type StreamRequest = Pick<ApiRequest<never>, 'http' | 'caller'>;

/** Events for one client. */
export interface EventSource {
  /** Returns the text of the next event; undefined if there is none now. */
  next(): Buffer | undefined;
  /** Releases the source. */
  close(): void;
}

/**
 * Server-sent events for one client. They are read from the source as fast as the client reads them, so nothing is buffered
 * for a slow one.
 */
export class EventStream extends Readable implements OpenStream {
  readonly by: Authenticated;
  readonly #source: EventSource;

  /** `open` creates the source, which calls {@link ready} when it has events. */
  constructor(by: Authenticated, open: (stream: EventStream) => EventSource) {
    super();
    this.by = by;
    this.#source = open(this);
    // Sends the response head before the first event.
    this.keepAlive();
  }

  /**
   * Pushes at least one event if there is one. Node.js calls this while the buffer is not full, and not again before
   * something was pushed.
   */
  override _read(): void {
    if (this.#pushNext()) this.ready();
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#source.close();
    done(error);
  }

  /** The source has events. */
  ready(): void {
    while (this.readableLength < this.readableHighWaterMark && this.#pushNext());
  }

  keepAlive(): void {
    // Not needed while the client has unread data.
    if (this.readableLength === 0) this.push(':\n\n');
  }

  end(): void {
    this.#source.close();
    this.push(null);
  }

  /** False when there are no more events. */
  #pushNext(): boolean {
    const text = this.#source.next();
    if (text) this.push(text);
    return text !== undefined;
  }
}

/** The open event streams of one kind. */
export class EventStreams {
  readonly #openStreams: Pick<OpenStreams, 'add'>;
  readonly #limit: number;
  #count = 0;

  constructor(openStreams: Pick<OpenStreams, 'add'>, limit: number) {
    this.#openStreams = openStreams;
    this.#limit = limit;
  }

  /** Responds with a stream of the source's events. OperationError UNAVAILABLE beyond the limit. */
  respond({ http, caller }: StreamRequest, open: (stream: EventStream) => EventSource): ApiResponse {
    if (this.#count >= this.#limit) {
      const message = `too many event streams: at most ${this.#limit} can be open; try again later`;
      throw new OperationError('UNAVAILABLE', message);
    }
    const headers = {
      'content-type': 'text/event-stream',
      'cache-control': 'no-store, no-transform',
      // nginx would buffer the events.
      'x-accel-buffering': 'no',
    };
    // A response to HEAD has no body, and the stream would never end.
    if (http.method === 'HEAD') return { status: 200, headers, body: '' };
    const stream = new EventStream(caller.authenticated, open);
    this.#count++;
    stream.once('close', () => this.#count--);
    stream.once('close', this.#openStreams.add(stream));
    return { status: 200, headers, body: stream };
  }
}

import { Readable } from 'node:stream';
import type { LongStream } from '../answer/long-streams.ts';
import type { EventCursor, ToolCallListener } from '../telemetry/tool-calls/event-listener.ts';
import type { ToolCallEvents } from '../telemetry/tool-calls/tool-call-events.ts';
import type { EventTexts } from './event-texts.ts';

/**
 * What one client is told of tool calls as they go on, as server-sent events (decisions 6). It is read as fast as its client
 * reads it. It breaks off when the client is too far behind, so that the client knows that it missed something.
 */
export class ToolCallStream extends Readable implements LongStream, ToolCallListener {
  readonly #events: EventCursor;
  readonly #texts: EventTexts;
  readonly #onLost: () => void;

  /** `onLost` is called when the client is too far behind. */
  constructor(events: Pick<ToolCallEvents, 'listen'>, texts: EventTexts, onLost: () => void) {
    super();
    this.#texts = texts;
    this.#onLost = onLost;
    this.#events = events.listen(this);
    // The client is to have its head before something happens.
    this.keepAlive();
  }

  /**
   * Asked for more: that is one event at least, where there is one. Node asks while what there is still fills the buffer,
   * and not again before something came.
   */
  override _read(): void {
    if (this.#pushNext()) this.ready();
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#events.close();
    done(error);
  }

  ready(): void {
    while (this.readableLength < this.readableHighWaterMark && this.#pushNext());
  }

  lost(): void {
    this.#onLost();
    this.destroy();
  }

  keepAlive(): void {
    // A client that has not read what there is needs no sign of life.
    if (this.readableLength === 0) this.push(':\n\n');
  }

  end(): void {
    this.#events.close();
    this.push(null);
  }

  /** False when all events were read. */
  #pushNext(): boolean {
    const record = this.#events.next();
    if (record) this.push(this.#texts.of(record));
    return record !== undefined;
  }
}

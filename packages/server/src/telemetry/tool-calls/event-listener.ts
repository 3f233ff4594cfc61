import type { EventRing } from './event-ring.ts';
import type { ToolCallRecord } from './tool-call-record.ts';

/** Who wants to know of tool calls as they go on. Neither may throw. */
export interface ToolCallListener {
  /** There are events to read. Said again only when all of them were read. */
  ready(): void;
  /** More than 1000 events have come that were not read: some are lost, and no more are told. */
  lost(): void;
}

/** Where a listener is in the events. They are kept once for all listeners, so that a slow one costs no memory. */
export class EventCursor {
  readonly listener: ToolCallListener;
  readonly #ring: EventRing;
  readonly #onClose: (cursor: EventCursor) => void;
  #position: number;
  /** It was told that there is something, and has not read all of it. */
  #told = false;
  #closed = false;

  constructor(listener: ToolCallListener, ring: EventRing, onClose: (cursor: EventCursor) => void) {
    this.listener = listener;
    this.#ring = ring;
    this.#onClose = onClose;
    this.#position = ring.end;
  }

  /** The next event; undefined when all were read, or after the end. */
  next(): ToolCallRecord | undefined {
    const record = this.#closed ? undefined : this.#ring.at(this.#position);
    if (record) this.#position++;
    else this.#told = false;
    return record;
  }

  /** True when the next event would be one too many. */
  get full(): boolean {
    return this.#ring.end - this.#position >= this.#ring.capacity;
  }

  /** Tells the listener that there is something to read, unless it knows. */
  tell(): void {
    if (this.#told || this.#position === this.#ring.end) return;
    this.#told = true;
    this.listener.ready();
  }

  /** Nothing is told any more. */
  close(): void {
    this.#closed = true;
    this.#onClose(this);
  }
}

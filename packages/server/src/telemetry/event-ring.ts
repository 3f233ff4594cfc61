/** Receives notifications about events. Must not throw. */
export interface EventListener {
  /** There are events to read. Called again only after all of them were read. */
  ready(): void;
  /** The next event would overwrite one that is not read: the listener must skip or close its cursor. */
  overflow(): void;
}

/**
 * Ring buffer of the latest records, numbered in the order of their arrival, with listeners. The records are stored once for
 * all listeners, so a slow one costs no memory.
 */
export class EventRing<T> {
  readonly capacity: number;
  readonly #slots: (T | undefined)[];
  /** Number of the next record. */
  end = 0;
  /** Called whenever half of the ring was written, for a reader of all records that is not notified of each. */
  onHalfFull: (() => void) | undefined = undefined;
  #halfFullAt: number;
  /** Iterated with every record. */
  #cursors: readonly EventCursor<T>[] = [];
  #notifying = false;

  constructor(capacity: number) {
    this.capacity = capacity;
    this.#halfFullAt = capacity >> 1;
    this.#slots = new Array<T | undefined>(capacity).fill(undefined);
  }

  add(record: T): void {
    if (this.#cursors.length > 0) this.#warnSlowCursors();
    this.#slots[this.end % this.capacity] = record;
    this.end++;
    if (this.end < this.#halfFullAt) return;
    this.#halfFullAt = this.end + (this.capacity >> 1);
    this.onHalfFull?.();
  }

  /** Returns the record of a number; undefined if it was overwritten or does not exist yet. */
  at(number: number): T | undefined {
    if (number < this.end - this.capacity || number >= this.end) return undefined;
    return this.#slots[number % this.capacity];
  }

  /** Number of the oldest stored record. */
  get start(): number {
    return Math.max(this.end - this.capacity, 0);
  }

  /** Iterates over the stored records. */
  *newestFirst(): Generator<T> {
    for (let number = this.end - 1; ; number--) {
      const record = this.at(number);
      if (!record) return;
      yield record;
    }
  }

  /** Notifies the listener of the records from this number on, at the end of the turn in which they are added. */
  listen(listener: EventListener, from: number = this.end): EventCursor<T> {
    const cursor = new EventCursor(listener, this, from);
    this.#cursors = [...this.#cursors, cursor];
    return cursor;
  }

  /** Ends the notifications of a listener. Called by {@link EventCursor.close}. */
  remove(cursor: EventCursor<T>): void {
    this.#cursors = this.#cursors.filter((each) => each !== cursor);
  }

  /** Called before a record is stored: listeners that are a full ring behind can read once more before they overflow. */
  #warnSlowCursors(): void {
    for (const cursor of this.#cursors) {
      if (!cursor.full) continue;
      cursor.notify();
      if (cursor.full) cursor.listener.overflow();
    }
    if (this.#notifying) return;
    this.#notifying = true;
    setImmediate(() => {
      this.#notifying = false;
      for (const cursor of this.#cursors) cursor.notify();
    });
  }
}

/** Position of a listener in an {@link EventRing}. */
export class EventCursor<T> {
  readonly listener: EventListener;
  readonly #ring: EventRing<T>;
  /** Number of the next record to read. */
  position: number;
  /** The listener was notified and has not read everything. */
  #notified = false;
  #closed = false;

  constructor(listener: EventListener, ring: EventRing<T>, position: number) {
    this.listener = listener;
    this.#ring = ring;
    this.position = position;
  }

  /** Returns the next record; undefined if there is none or the cursor is closed. */
  next(): T | undefined {
    const record = this.#closed ? undefined : this.#ring.at(this.position);
    if (record) this.position++;
    else this.#notified = false;
    return record;
  }

  /** True if the next record would overwrite one that is not read. */
  get full(): boolean {
    return this.#ring.end - this.position >= this.#ring.capacity;
  }

  /** Notifies the listener if there are records that it does not know of. */
  notify(): void {
    if (this.#notified || this.position === this.#ring.end) return;
    this.#notified = true;
    this.listener.ready();
  }

  /** Skips all records that are not read; returns their number. */
  skip(): number {
    const skipped = this.#ring.end - this.position;
    this.position = this.#ring.end;
    return skipped;
  }

  /** Ends the notifications. */
  close(): void {
    this.#closed = true;
    this.#ring.remove(this);
  }
}

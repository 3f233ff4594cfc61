import type { ReceivedEvent } from './seen-event.ts';

/** What came while nobody listened. */
export interface EventGap {
  /** What the service still knows of it, oldest first. */
  readonly events: readonly ReceivedEvent[];
  /** Whether that is all of it. */
  readonly complete: boolean;
}

/**
 * How far events have been read. The stream tells none again; what it did not tell is looked up in the list of the
 * latest events, which is asked for once the stream is open, so that some events stand in both.
 */
export class EventCursor {
  #last: string | undefined;
  /** What the list has told, and the stream may tell too. */
  #listed: ReadonlySet<string> = new Set();

  /** Begins behind the list, which is newest first; all of it counts as read. */
  reset(kept: readonly ReceivedEvent[]): void {
    this.#last = kept[0] && keyOf(kept[0]);
    this.#listed = new Set(kept.map(keyOf));
  }

  /** Begins behind the newest event, if there is one; the stream may tell it, as it may have come after it was opened. */
  startAfter(newest: ReceivedEvent | undefined): void {
    this.#last = newest && keyOf(newest);
    this.#listed = new Set();
  }

  /** Reads on with an event of the stream; false when it was read before. */
  advance(event: ReceivedEvent): boolean {
    const key = keyOf(event);
    if (this.#listed.has(key)) return false;
    this.#last = key;
    return true;
  }

  /** Reads on with the list after a gap. */
  catchUp(kept: readonly ReceivedEvent[]): EventGap {
    const last = this.#last;
    const at = last === undefined ? -1 : kept.findIndex((event) => keyOf(event) === last);
    this.reset(kept);
    return { events: (at < 0 ? kept : kept.slice(0, at)).toReversed(), complete: at >= 0 };
  }
}

/** The two events of a call share its id. */
function keyOf({ eventId, eventType }: ReceivedEvent): string {
  return `${eventId} ${eventType}`;
}

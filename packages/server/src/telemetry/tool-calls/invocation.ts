import type { ToolCallErrorCategory } from '@sluice/contract';
import type { EventContent } from './event-content.ts';
import type { ToolCallIdentity } from './tool-call-identity.ts';
import type { Happening } from './tool-call-record.ts';

/** Takes what happens to a call. */
export interface HappeningSink {
  /** Milliseconds of a clock that only goes forwards. */
  readonly now: () => number;
  emit(eventId: string, identity: ToolCallIdentity, happening: Happening): void;
}

/**
 * A tool call that has begun. Whatever is said of its end, and how often, there is one event of it: what was said first
 * (specification, "States and transitions").
 */
export class Invocation {
  readonly eventId: string;
  readonly #identity: ToolCallIdentity;
  readonly #sink: HappeningSink;
  readonly #startedAt: number;
  #over = false;

  constructor(eventId: string, identity: ToolCallIdentity, sink: HappeningSink) {
    this.eventId = eventId;
    this.#identity = identity;
    this.#sink = sink;
    this.#startedAt = sink.now();
  }

  /** A reply has come. `isError`: the tool says itself that it failed. */
  completed(isError: boolean, content: EventContent): void {
    if (this.#over) return;
    this.#over = true;
    this.#sink.emit(this.eventId, this.#identity, { type: 'COMPLETED', durationMs: this.#elapsed(), isError, content });
  }

  /** No reply will come, or none that can be used. The message is told as it is, but not more than 1000 characters. */
  failed(category: ToolCallErrorCategory, message: string): void {
    if (this.#over) return;
    this.#over = true;
    const durationMs = this.#elapsed();
    this.#sink.emit(this.eventId, this.#identity, { type: 'FAILED', durationMs, category, message: cut(message) });
  }

  #elapsed(): number {
    return this.#sink.now() - this.#startedAt;
  }
}

const MOST_CHARACTERS = 1000;

/** At most 1000 characters (decisions 6, 8). What is cut off is not kept alive. */
export function cut(message: string): string {
  if (message.length <= MOST_CHARACTERS) return message;
  // A character takes two code units at most.
  return [...message.slice(0, 2 * MOST_CHARACTERS)].slice(0, MOST_CHARACTERS).join('');
}

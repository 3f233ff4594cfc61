import { randomUUID } from 'node:crypto';
import type { ToolCallErrorCategory } from '@sluice/contract';
import type { EventContent } from './event-content.ts';
import type { RequestSummary } from './request-summary.ts';
import type { ToolCallIdentity } from './tool-call-identity.ts';
import type { EventDetails } from './tool-call-record.ts';

/** Where a report's events go, and the clock that measures between them. */
export interface Recorder {
  /** Milliseconds of a clock that only goes forwards. */
  readonly now: () => number;
  readonly record: (eventId: string, identity: ToolCallIdentity, details: EventDetails) => void;
}

/**
 * What is told of one tool call. One that begins has a STARTED event and one that ends it, whatever is said of its end and
 * how often: what was said first. One that fails before it begins has that FAILED event alone (specification, "States and
 * transitions"; decisions 6).
 */
export class ToolCallReport {
  readonly eventId: string = randomUUID();
  readonly #recorder: Recorder;
  readonly #identity: ToolCallIdentity;
  #startedAt: number | undefined = undefined;
  #over = false;

  constructor(identity: ToolCallIdentity, recorder: Recorder) {
    this.#identity = identity;
    this.#recorder = recorder;
  }

  /** What carries it out is known, and its request is made. Once it has begun, this says nothing more. */
  begin(summary: RequestSummary): void {
    if (this.#over || this.#startedAt !== undefined) return;
    this.#startedAt = this.#recorder.now();
    this.#tell({ type: 'STARTED', summary });
  }

  /** A reply has come; only of a call that has begun. `isError`: the tool says itself that it failed. */
  completed(isError: boolean, content: EventContent): void {
    if (this.#over || this.#startedAt === undefined) return;
    this.#over = true;
    this.#tell({ type: 'COMPLETED', durationMs: this.#recorder.now() - this.#startedAt, isError, content });
  }

  /** No reply will come, or none that can be used. The message is told as it is, but not more than 1000 characters. */
  failed(category: ToolCallErrorCategory, message: string): void {
    if (this.#over) return;
    this.#over = true;
    const durationMs = this.#startedAt === undefined ? 0 : this.#recorder.now() - this.#startedAt;
    this.#tell({ type: 'FAILED', durationMs, category, message: cut(message) });
  }

  #tell(details: EventDetails): void {
    this.#recorder.record(this.eventId, this.#identity, details);
  }
}

const MOST_CHARACTERS = 1000;

/** At most 1000 characters (decisions 6, 8). What is cut off is not kept alive. */
function cut(message: string): string {
  if (message.length <= MOST_CHARACTERS) return message;
  // A character takes two code units at most.
  return [...message.slice(0, 2 * MOST_CHARACTERS)].slice(0, MOST_CHARACTERS).join('');
}

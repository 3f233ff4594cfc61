import type { ToolCallErrorCategory } from '@sluice/contract';
import type { EventContent } from './event-content.ts';
import type { Invocation } from './invocation.ts';
import type { RequestSummary } from './request-summary.ts';
import type { ToolCallEvents } from './tool-call-events.ts';
import type { ToolCallIdentity } from './tool-call-identity.ts';

/**
 * A call that may fail before it begins: it has one FAILED event alone then, and else a STARTED one and one that ends it
 * (specification, "States and transitions"; decisions 6).
 */
export class ToldCall {
  readonly #events: Pick<ToolCallEvents, 'begin' | 'refused'>;
  readonly #identity: ToolCallIdentity;
  #invocation: Invocation | undefined = undefined;
  #over = false;

  /** `identity`: as it is known before the call begins. */
  constructor(events: Pick<ToolCallEvents, 'begin' | 'refused'>, identity: ToolCallIdentity) {
    this.#events = events;
    this.#identity = identity;
  }

  /** What carries it out is known, and its request is made. */
  begin(summary: RequestSummary, identity: ToolCallIdentity = this.#identity): void {
    if (!this.#over) this.#invocation ??= this.#events.begin(identity, summary);
  }

  /** A reply has come; only of a call that has begun. */
  completed(isError: boolean, content: EventContent): void {
    this.#invocation?.completed(isError, content);
  }

  failed(category: ToolCallErrorCategory, message: string): void {
    if (this.#invocation) return this.#invocation.failed(category, message);
    if (this.#over) return;
    this.#over = true;
    this.#events.refused(this.#identity, category, message);
  }
}

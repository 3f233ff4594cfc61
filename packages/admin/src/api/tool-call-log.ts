import type { ToolCallEvent, ToolCallOutcome } from '@sluice/contract';

type Started = Extract<ToolCallEvent, { eventType: 'STARTED' }>;
type Ended = Exclude<ToolCallEvent, { eventType: 'STARTED' }>;

/** A stream of events; the returned function ends it for the listener. */
export interface ToolCallStream {
  listen(topic: 'tool-calls', listener: (event: unknown) => void): () => void;
}

/** A tool call with the events that have arrived. */
export interface LoggedCall {
  readonly id: string;
  /** Undefined for a call that failed before it started, and for one whose start was not received. */
  readonly started: Started | undefined;
  /** Undefined while it runs. */
  readonly ended: Ended | undefined;
}

/** State of a call: how it ended, or that it has not. */
export type CallState = 'running' | ToolCallOutcome;

/** The latest of the two events. */
export function latestEvent({ started, ended }: LoggedCall): ToolCallEvent | undefined {
  return ended ?? started;
}

/** Returns how a call ended, if it has. */
export function stateOf({ ended }: LoggedCall): CallState {
  return ended?.outcome ?? 'running';
}

/** States as they are shown. */
export const STATE_NAMES: Readonly<Record<CallState, string>> = {
  running: 'running',
  completed: 'completed',
  tool_error: 'tool error',
  failed: 'failed',
  timeout: 'timeout',
  canceled: 'canceled',
  blocked: 'blocked',
};

/** Calls that the log keeps: what they contain is at most 16 KiB each. */
const CAPACITY = 2_000;
/** Interval in which pages see new calls, whatever their rate. */
const INTERVAL_MS = 250;

/**
 * The latest tool calls, newest first. Events are collected as they arrive and shown four times a second, so that a thousand
 * of them in a second cost a page as little as one.
 */
export class ToolCallLog {
  /** Changes with {@link subscribe}; never in place. */
  calls: readonly LoggedCall[] = [];
  /** Calls that were dropped since the last {@link clear}, because they were too many. */
  dropped = 0;
  readonly #byId = new Map<string, LoggedCall>();
  readonly #listeners = new Set<() => void>();
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** Adds events in order; events that are known already change nothing. */
  add(...events: readonly unknown[]): void {
    for (const event of events) if (isToolCallEvent(event)) this.#addOne(event);
    this.#timer ??= setTimeout(() => this.#publish(), INTERVAL_MS);
  }

  clear(): void {
    this.#byId.clear();
    this.dropped = 0;
    this.#publish();
  }

  /** Adds stored events, newest first. */
  load(stored: readonly unknown[]): void {
    this.add(...stored.toReversed());
    this.#publish();
  }

  /** Adds the events of a stream until the returned function is called. */
  follow(events: ToolCallStream): () => void {
    return events.listen('tool-calls', (event) => this.add(event));
  }

  /** Calls the listener after each change until the returned function is called. */
  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  #addOne(event: ToolCallEvent): void {
    const known = this.#byId.get(event.eventId) ?? { id: event.eventId, started: undefined, ended: undefined };
    const call = event.eventType === 'STARTED' ? { ...known, started: event } : { ...known, ended: event };
    this.#byId.set(event.eventId, call);
    if (this.#byId.size <= CAPACITY) return;
    // A map iterates in the order of insertion.
    const [oldest] = this.#byId.keys();
    if (oldest !== undefined) this.#byId.delete(oldest);
    this.dropped++;
  }

  #publish(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.calls = [...this.#byId.values()].reverse();
    for (const listener of this.#listeners) listener();
  }
}

/** Whether the data of an event is a tool-call event. */
export function isToolCallEvent(data: unknown): data is ToolCallEvent {
  return typeof data === 'object' && data !== null && 'eventId' in data && 'eventType' in data && 'toolName' in data;
}

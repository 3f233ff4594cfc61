import { type EventTopic, eventTopic, MAX_EVENT_STREAMS, type MissedEvents, operations } from '@sluice/contract';
import { quoteText } from '@sluice/protocol/text';
import { OperationError } from '../registry/operation-error.ts';
import type { EventCursor, EventRing } from '../telemetry/event-ring.ts';
import { eventText, type StateEvent, type StateEvents } from '../telemetry/state-events.ts';
import type { ToolCallRecord } from '../telemetry/tool-calls/event.ts';
import type { ToolCallEvents } from '../telemetry/tool-calls/events.ts';
import type { ManagementContext } from './context.ts';
import { type EventSource, type EventStream, EventStreams } from './event-stream.ts';
import type { Router } from './router.ts';
import { eventTexts } from './tool-calls.ts';

const TOOL_CALLS: EventTopic = 'tool-calls';

/** The stored events. */
interface EventParts {
  readonly toolCalls: Pick<ToolCallEvents, 'ring'>;
  readonly stateEvents: StateEvents;
  readonly textOf: (record: ToolCallRecord) => Buffer;
}

/** `/api/v1/events`: one stream of all events for live pages. */
export function eventRoutes(router: Router, { toolCalls, stateEvents, openStreams }: ManagementContext): void {
  const { watch } = operations.events;
  const textOf = eventTexts((event) => eventText(TOOL_CALLS, event));
  const streams = new EventStreams(openStreams, MAX_EVENT_STREAMS);

  router.add(watch, ({ http, caller, query }) => {
    const topics = parseTopics(query('topics'));
    const last = http.headers['last-event-id'];
    const from = typeof last === 'string' ? last : undefined;
    const parts = { toolCalls, stateEvents, textOf };
    return streams.respond({ http, caller }, (stream) => new EventSequence(stream, topics, parts, from));
  });
}

/** Parses `?topics=`. OperationError BAD_REQUEST for an unknown topic. */
function parseTopics(text: string | undefined): ReadonlySet<EventTopic> {
  if (text === undefined) return new Set(eventTopic.options);
  const topics = text.split(',').map((name) => {
    const topic = eventTopic.options.find((known) => known === name.trim());
    if (topic) return topic;
    const expected = `expected one or more of ${eventTopic.options.join(', ')}`;
    throw new OperationError('BAD_REQUEST', `invalid topic ${quoteText(name, 100)}: ${expected}`);
  });
  return new Set(topics);
}

/**
 * Events of some topics for one client: tool calls and state events, each in their order. The id of an event is the position
 * behind it in both rings, so that a client can resume (HTML, "The Last-Event-ID header"). Skipped events are reported in a
 * `missed` event.
 */
class EventSequence implements EventSource {
  readonly #topics: ReadonlySet<EventTopic>;
  readonly #parts: EventParts;
  /** Undefined if the client does not want their topics. */
  readonly #toolCalls: EventCursor<ToolCallRecord> | undefined;
  readonly #states: EventCursor<StateEvent> | undefined;
  readonly #stateTopics: EventTopic[];
  /** Texts of `missed` events that the client has not read. */
  #missed: MissedEvents[] = [];
  /** The client has no id yet. */
  #isNew = true;

  constructor(stream: EventStream, topics: ReadonlySet<EventTopic>, parts: EventParts, last: string | undefined) {
    this.#topics = topics;
    this.#parts = parts;
    this.#stateTopics = [...topics].filter((topic) => topic !== TOOL_CALLS);
    const positions = last === undefined ? undefined : parsePositions(last, parts.stateEvents.origin);
    if (last !== undefined && !positions) this.#missed.push({ topics: [...topics] });
    if (topics.has(TOOL_CALLS)) {
      this.#toolCalls = this.#listen(stream, parts.toolCalls.ring, positions?.toolCalls, [TOOL_CALLS]);
    }
    if (this.#stateTopics.length > 0) {
      this.#states = this.#listen(stream, parts.stateEvents.ring, positions?.states, this.#stateTopics);
    }
  }

  next(): Buffer | undefined {
    const text = this.#nextText();
    if (!text) return undefined;
    this.#isNew = false;
    return Buffer.concat([Buffer.from(`id: ${this.#id()}\n`), text]);
  }

  close(): void {
    this.#toolCalls?.close();
    this.#states?.close();
  }

  #nextText(): Buffer | undefined {
    const missed = this.#missed.shift();
    if (missed) return eventText('missed', missed);
    // Changes of state are few and concern what a client shows of the tool calls after them.
    for (let state = this.#states?.next(); state; state = this.#states?.next()) {
      if (this.#topics.has(state.topic)) return state.text;
    }
    const call = this.#toolCalls?.next();
    if (call) return this.#parts.textOf(call);
    // An event without data sets the position from which the client can resume.
    return this.#isNew ? Buffer.from('\n') : undefined;
  }

  #id(): string {
    const { toolCalls, stateEvents } = this.#parts;
    const call = this.#toolCalls?.position ?? toolCalls.ring.end;
    return `${stateEvents.origin}.${call}.${this.#states?.position ?? stateEvents.ring.end}`;
  }

  #listen<T>(stream: EventStream, ring: EventRing<T>, from: number | undefined, topics: EventTopic[]): EventCursor<T> {
    // Positions of the future come from no event of this process.
    const requested = from === undefined || from > ring.end ? ring.end : from;
    const start = Math.max(requested, ring.start);
    if (start > requested) this.#addMissed(topics, start - requested);
    const cursor = ring.listen(
      {
        ready: () => stream.ready(),
        overflow: () => this.#addMissed(topics, cursor.skip()),
      },
      start,
    );
    return cursor;
  }

  /** Combines what a client that does not read misses, so that nothing grows. */
  #addMissed(topics: EventTopic[], count: number): void {
    const last = this.#missed.find((missed) => missed.topics === topics);
    this.#missed = this.#missed.filter((missed) => missed !== last);
    this.#missed.push({ topics, count: (last?.count ?? 0) + count });
  }
}

/** Parses an event id; undefined if it is of another process. */
function parsePositions(
  id: string,
  origin: string,
): { readonly toolCalls: number; readonly states: number } | undefined {
  const [, process, toolCalls, states] = /^([\w-]{1,32})\.(\d{1,15})\.(\d{1,15})$/.exec(id) ?? [];
  return process === origin ? { toolCalls: Number(toolCalls), states: Number(states) } : undefined;
}

import {
  TOOL_CALL_EVENT_CAPACITY,
  type ToolCallErrorCategory,
  type ToolCallEvent,
  type ToolCallTransport,
} from '@sluice/contract';
import type { Logger, LogLevel, TargetLogger } from '../log.ts';
import {
  type EventContent,
  type Recorder,
  type RequestSummary,
  type ToolCallIdentity,
  ToolCallReporter,
} from './report.ts';

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

/** What one event says besides whose call it is. */
export type EventDetails =
  | { readonly type: 'STARTED'; readonly summary: RequestSummary }
  | {
      readonly type: 'COMPLETED';
      readonly durationMs: number;
      readonly isError: boolean;
      readonly content: EventContent;
    }
  | {
      readonly type: 'FAILED';
      readonly durationMs: number;
      readonly category: ToolCallErrorCategory;
      readonly message: string;
    };

/** An event as it is kept: cheap to make, since most are never read. Nothing in it needs redaction any more. */
export interface ToolCallRecord {
  readonly eventId: string;
  /** Milliseconds since the Unix epoch. */
  readonly at: number;
  readonly identity: ToolCallIdentity;
  readonly details: EventDetails;
}

/** The event as it is told (decisions 6). Members without a value are left out. */
export function eventOf({ eventId, at, identity, details }: ToolCallRecord): ToolCallEvent {
  const timestamp = new Date(at).toISOString();
  const whose = identityOf(identity);
  switch (details.type) {
    case 'STARTED': {
      const { argumentNames, argumentCount, headerNames, code } = details.summary;
      return {
        eventId,
        eventType: 'STARTED',
        timestamp,
        ...whose,
        ...(argumentNames && { argumentNames: [...argumentNames] }),
        argumentCount,
        headers: Object.fromEntries(headerNames.map((name) => [name, '[REDACTED]' as const])),
        ...(code && { body: '[CODE]' as const }),
      };
    }
    case 'COMPLETED': {
      const { isError, content, durationMs } = details;
      return {
        eventId,
        eventType: 'COMPLETED',
        timestamp,
        ...whose,
        isError,
        content: [...content.texts],
        ...(content.truncated && { contentTruncated: true as const }),
        duration: rounded(durationMs),
      };
    }
    case 'FAILED': {
      const { category, message, durationMs } = details;
      return {
        eventId,
        eventType: 'FAILED',
        timestamp,
        ...whose,
        duration: rounded(durationMs),
        errorCategory: category,
        errorMessage: message,
      };
    }
  }
}

function identityOf({
  serviceId,
  conversationId,
  requestId,
  serviceRequestId: _forTheLog,
  traceId: _forTheLogToo,
  ...always
}: ToolCallIdentity) {
  return {
    ...always,
    ...(serviceId !== undefined && { serviceId }),
    ...(conversationId !== undefined && { conversationId }),
    ...(requestId !== undefined && { requestId }),
  };
}

/** To three decimals. */
export function rounded(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}

/**
 * The line of each event, and its level: that a call has begun says little that its end does not, and half of what the
 * lines cost is saved without it.
 */
const LINES: Readonly<Record<EventDetails['type'], { readonly message: string; readonly level: LogLevel }>> = {
  STARTED: { message: 'tool call started', level: 'debug' },
  COMPLETED: { message: 'tool call completed', level: 'info' },
  FAILED: { message: 'tool call failed', level: 'info' },
};

/**
 * Writes one line per event (decisions 6; 4.7, "Correlation"). Without what came back: neither the content nor the message
 * of an error, which others wrote and which may repeat an argument.
 */
export class EventLog {
  readonly #logs: Readonly<Record<ToolCallTransport, TargetLogger>>;

  readonly #isCompletion: (id: string) => boolean;

  /** `isCompletion`: whether an interaction has this completion id. */
  constructor(logger: Logger, isCompletion: (id: string) => boolean) {
    this.#isCompletion = isCompletion;
    const bridge = logger.target('service::bridge');
    this.#logs = { mcp: logger.target('service::forward'), grpc: bridge, code: bridge };
  }

  write({ eventId, identity, details }: ToolCallRecord): void {
    const { transport } = identity;
    const { type } = details;
    const { message, level } = LINES[type];
    const log = this.#logs[transport];
    if (!log.enabled(level)) return;
    log[level](message, {
      event_id: eventId,
      transport,
      namespace: identity.namespace,
      tool: identity.toolName,
      tool_type: identity.toolType,
      service: identity.serviceId,
      service_address: identity.serviceAddress,
      x_request_id: identity.requestId,
      conversation_id: identity.conversationId,
      completion_id: this.#completionOf(identity),
      service_request_id: identity.serviceRequestId,
      trace_id: identity.traceId,
      argument_count: type === 'STARTED' ? details.summary.argumentCount : undefined,
      is_error: type === 'COMPLETED' ? details.isError : undefined,
      error_category: type === 'FAILED' ? details.category : undefined,
      duration_ms: type === 'STARTED' ? undefined : rounded(details.durationMs),
    });
  }

  /** The completion that asked for the call, where its agent says so and it was recorded. */
  #completionOf({ requestId, conversationId }: ToolCallIdentity): string | undefined {
    if (requestId !== undefined && this.#isCompletion(requestId)) return requestId;
    return conversationId !== undefined && this.#isCompletion(conversationId) ? conversationId : undefined;
  }
}

/** The latest records, each with the number that it came as; older ones are gone. */
export class EventRing {
  readonly capacity: number;
  readonly #slots: (ToolCallRecord | undefined)[];
  #end = 0;

  constructor(capacity: number) {
    this.capacity = capacity;
    this.#slots = new Array<ToolCallRecord | undefined>(capacity).fill(undefined);
  }

  /** The number that the next record gets. */
  get end(): number {
    return this.#end;
  }

  add(record: ToolCallRecord): void {
    this.#slots[this.#end % this.capacity] = record;
    this.#end++;
  }

  /** The record of a number; undefined when it is gone or has not come yet. */
  at(number: number): ToolCallRecord | undefined {
    if (number < this.#end - this.capacity || number >= this.#end) return undefined;
    return this.#slots[number % this.capacity];
  }

  /** All that are there, newest first. */
  *newestFirst(): Generator<ToolCallRecord> {
    for (let number = this.#end - 1; ; number--) {
      const record = this.at(number);
      if (!record) return;
      yield record;
    }
  }
}

/** How often there was an event of this kind. */
export interface ToolCallCount {
  readonly transport: ToolCallTransport;
  readonly type: EventDetails['type'];
  /** Of FAILED. */
  readonly category?: string;
  readonly count: number;
}

/** Counts events of tool calls. Part of the path of every call: makes no objects. */
export class ToolCallCounts {
  readonly #mcp = new CountsOfOne();
  readonly #grpc = new CountsOfOne();
  readonly #code = new CountsOfOne();

  add(transport: ToolCallTransport, details: EventDetails): void {
    const counts = this.#of(transport);
    if (details.type === 'STARTED') counts.started++;
    else if (details.type === 'COMPLETED') counts.completed++;
    else counts.failed.set(details.category, (counts.failed.get(details.category) ?? 0) + 1);
  }

  /** The counts so far; nothing of categories in which nothing failed. */
  all(): ToolCallCount[] {
    return (['mcp', 'grpc', 'code'] as const).flatMap((transport): ToolCallCount[] => {
      const { started, completed, failed } = this.#of(transport);
      return [
        { transport, type: 'STARTED', count: started },
        { transport, type: 'COMPLETED', count: completed },
        ...Array.from(failed, ([category, count]) => ({ transport, type: 'FAILED' as const, category, count })),
      ];
    });
  }

  #of(transport: ToolCallTransport): CountsOfOne {
    switch (transport) {
      case 'mcp':
        return this.#mcp;
      case 'grpc':
        return this.#grpc;
      case 'code':
        return this.#code;
    }
  }
}

class CountsOfOne {
  started = 0;
  completed = 0;
  readonly failed = new Map<string, number>();
}

/** Which of the kept events are asked for. */
export interface EventFilter {
  readonly toolName?: string | undefined;
  /** Only FAILED events have one. */
  readonly category?: string | undefined;
  readonly limit: number;
}

/** The clocks, for tests to hold. */
export interface Clocks {
  /** Milliseconds since the Unix epoch. */
  readonly epoch: () => number;
  /** Milliseconds of a clock that only goes forwards. */
  readonly steady: () => number;
}

/** Where what carries calls out tells of them. */
export type ToolCallSink = Pick<ToolCallEvents, 'of'>;

const CLOCKS: Clocks = { epoch: Date.now, steady: () => performance.now() };

/**
 * What is told of tool calls: who carries one out has a report of it, and what is said there becomes events that are
 * logged, kept and told to listeners (specification, "Events"; decisions 6). Nobody waits for a listener.
 *
 * On the path of every call: an event is a record of few members. Text is made of it when somebody reads it, or for the
 * log when that is on. Measured for both events of a call, everything counted: 0.6 µs without log, 3 µs with the line of
 * its end, 6 µs with that of its beginning too.
 */
export class ToolCallEvents {
  readonly #recorder: Recorder;
  /** All events since the start, those that are not kept any more too. */
  readonly counts = new ToolCallCounts();
  readonly #ring = new EventRing(TOOL_CALL_EVENT_CAPACITY);
  /** An array: it is looked through with every event. */
  #listening: readonly EventCursor[] = [];
  #telling = false;

  /** `isCompletion`: whether an interaction has this completion id. */
  constructor(logger: Logger, isCompletion: (id: string) => boolean = () => false, { epoch, steady }: Clocks = CLOCKS) {
    const log = new EventLog(logger, isCompletion);
    this.#recorder = {
      now: steady,
      record: (eventId, identity, details) => {
        this.counts.add(identity.transport, details);
        const record: ToolCallRecord = { eventId, at: epoch(), identity, details };
        if (this.#listening.length > 0) this.#makeRoom();
        this.#ring.add(record);
        log.write(record);
      },
    };
  }

  /** The report of a call that this is known of; it is to be told how the call goes. */
  of(identity: ToolCallIdentity): ToolCallReporter {
    return new ToolCallReporter(identity, this.#recorder);
  }

  /** The kept events that are asked for, newest first. */
  recent({ toolName, category, limit }: EventFilter): ToolCallRecord[] {
    const found: ToolCallRecord[] = [];
    for (const record of this.#ring.newestFirst()) {
      if (found.length >= limit) break;
      const { identity, details } = record;
      if (toolName !== undefined && identity.toolName !== toolName) continue;
      if (category !== undefined && !(details.type === 'FAILED' && details.category === category)) continue;
      found.push(record);
    }
    return found;
  }

  /** Tells the listener of events from now on, at the end of the turn in which they happen. */
  listen(listener: ToolCallListener): EventCursor {
    const cursor = new EventCursor(listener, this.#ring, (closed) => {
      this.#listening = this.#listening.filter((each) => each !== closed);
    });
    this.#listening = [...this.#listening, cursor];
    return cursor;
  }

  /** Before an event comes: listeners that have no room for it get a chance to read, and are dropped if they do not. */
  #makeRoom(): void {
    for (const cursor of this.#listening) {
      if (!cursor.full) continue;
      cursor.tell();
      if (!cursor.full) continue;
      cursor.close();
      cursor.listener.lost();
    }
    if (this.#telling) return;
    this.#telling = true;
    setImmediate(() => {
      this.#telling = false;
      for (const cursor of this.#listening) cursor.tell();
    });
  }
}

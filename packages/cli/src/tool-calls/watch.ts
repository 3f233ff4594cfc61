import { type Client, unwrap, unwrapStream } from '@sluice/contract/client';
import { TOOL_CALL_EVENT_CAPACITY } from '@sluice/contract/values';
import { parseLossless } from '@sluice/protocol/json/parse';
import { EVENT_STREAM, notManagementApi } from '../connection/connect.ts';
import { type FollowedStream, readEvents } from '../connection/follow.ts';
import type { Context } from '../context.ts';
import { isReceivedEvent, type ReceivedEvent } from './event.ts';

/** Events missed during a gap. */
export interface EventGap {
  /** Events that are still available, oldest first. */
  readonly events: readonly ReceivedEvent[];
  /** Whether these are all of them. */
  readonly complete: boolean;
}

/**
 * Position in the sequence of events. The stream does not repeat events; missed ones come from the list of the latest
 * events, which is requested after the stream is open, so some events may be in both.
 */
export class EventCursor {
  #last: string | undefined;
  /** Keys of listed events, which the stream may repeat. */
  #listed: ReadonlySet<string> = new Set();

  /** Starts after the list, which is newest first. */
  reset(recent: readonly ReceivedEvent[]): void {
    this.#last = recent[0] && keyOf(recent[0]);
    this.#listed = new Set(recent.map(keyOf));
  }

  /** Starts after the newest event, if any. The stream may still send it. */
  startAfter(newest: ReceivedEvent | undefined): void {
    this.#last = newest && keyOf(newest);
    this.#listed = new Set();
  }

  /** Advances to an event of the stream; false when it is a duplicate. */
  advance(event: ReceivedEvent): boolean {
    const key = keyOf(event);
    if (this.#listed.has(key)) return false;
    this.#last = key;
    return true;
  }

  /** Advances to the list after a gap. */
  catchUp(recent: readonly ReceivedEvent[]): EventGap {
    const last = this.#last;
    const at = last === undefined ? -1 : recent.findIndex((event) => keyOf(event) === last);
    this.reset(recent);
    return { events: (at < 0 ? recent : recent.slice(0, at)).toReversed(), complete: at >= 0 };
  }
}

/** Both events of a call share its id. */
function keyOf({ eventId, eventType }: ReceivedEvent): string {
  return `${eventId} ${eventType}`;
}

/** Callbacks of a {@link Watch}. */
export interface WatchHandler {
  /** Number of latest events to start with; none when undefined. */
  readonly latest: number | undefined;
  /** Whether to report an event. */
  readonly isWanted: (event: ReceivedEvent) => boolean;
  readonly onEvent: (event: ReceivedEvent) => void;
  /** Called when the first connection is established. */
  readonly onBegin: () => void;
  /** Called when a connection is re-established, before the missed events. */
  readonly onResume: (missed: EventGap) => void;
}

/** Events of tool calls over any number of connections, without duplicates and gaps. */
export class Watch implements FollowedStream {
  readonly #context: Context;
  readonly #handler: WatchHandler;
  readonly #cursor = new EventCursor();
  #begun = false;
  #listening = false;

  constructor(context: Context, handler: WatchHandler) {
    this.#context = context;
    this.#handler = handler;
  }

  get begun(): boolean {
    return this.#begun;
  }

  get listening(): boolean {
    return this.#listening;
  }

  async listen(ended: AbortSignal): Promise<void> {
    this.#listening = false;
    const connection = new AbortController();
    const signal = AbortSignal.any([ended, connection.signal]);
    try {
      // Connects again each time, because a login may have to be renewed.
      const client = await this.#context.connect();
      const stream = await open(client, signal);
      // Requested after the stream is open, so that no event is lost in between.
      await (this.#begun ? this.#resume(client, signal) : this.#begin(client, signal));
      this.#listening = true;
      for await (const { data } of readEvents(stream)) {
        // An event without data only sets the resume position, which this stream does not have.
        if (data === '') continue;
        const event = parseEvent(data, this.#context.options().host);
        if (this.#cursor.advance(event)) this.#emit(event);
      }
    } finally {
      connection.abort();
    }
  }

  async #begin(client: Client, signal: AbortSignal): Promise<void> {
    const { latest, isWanted, onBegin } = this.#handler;
    const recent = await fetchRecentEvents(client, latest === undefined ? 1 : TOOL_CALL_EVENT_CAPACITY, signal);
    this.#begun = true;
    onBegin();
    if (latest === undefined) return this.#cursor.startAfter(recent[0]);
    this.#cursor.reset(recent);
    for (const event of recent.filter(isWanted).slice(0, latest).toReversed()) this.#emit(event);
  }

  async #resume(client: Client, signal: AbortSignal): Promise<void> {
    const missed = this.#cursor.catchUp(await fetchRecentEvents(client, TOOL_CALL_EVENT_CAPACITY, signal));
    this.#handler.onResume(missed);
    for (const event of missed.events) this.#emit(event);
  }

  #emit(event: ReceivedEvent): void {
    if (this.#handler.isWanted(event)) this.#handler.onEvent(event);
  }
}

function open(client: Client, signal: AbortSignal): Promise<ReadableStream<Uint8Array>> {
  const headers = { accept: EVENT_STREAM };
  return unwrapStream(client.GET('/api/v1/tool-calls/notifications', { parseAs: 'stream', headers, signal }));
}

/** Returns the latest events, newest first. */
function fetchRecentEvents(client: Client, limit: number, signal: AbortSignal): Promise<readonly ReceivedEvent[]> {
  return unwrap(client.GET('/api/v1/tool-calls', { params: { query: { limit: String(limit) } }, signal }));
}

function parseEvent(data: string, host: string): ReceivedEvent {
  const value = parseOrUndefined(data);
  if (isReceivedEvent(value)) return value;
  throw notManagementApi(host, ['unexpected data in the event stream']);
}

function parseOrUndefined(data: string): unknown {
  try {
    return parseLossless(data);
  } catch {
    return undefined;
  }
}

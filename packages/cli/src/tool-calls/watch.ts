import { TOOL_CALL_EVENT_CAPACITY } from '@sluice/contract';
import { type Client, unwrap, unwrapStream } from '@sluice/contract/client';
import { parseLossless } from '@sluice/protocol/json/parse';
import { EventStreamDecoder } from '@sluice/protocol/mcp/event-stream';
import { EVENT_STREAM, notManagementApi } from '../connection/connect.ts';
import type { Context } from '../context.ts';
import { isReceivedEvent, type ReceivedEvent } from './event.ts';

/**
 * The data of each event of a stream (HTML standard, "Server-sent events"), as they come; ends when the stream does.
 * Comments, which keep it alive, are no events. Whoever stops early closes the stream.
 */
export async function* readEvents(stream: ReadableStream<Uint8Array>): AsyncGenerator<string, void> {
  const come: string[] = [];
  const decoder = new EventStreamDecoder({
    onEvent: ({ data }) => {
      // One without data says where to resume, which the management API knows nothing of.
      if (data !== '') come.push(data);
    },
    onEventError: (error) => {
      throw error;
    },
  });
  for await (const { buffer, byteOffset, byteLength } of stream) {
    decoder.write(Buffer.from(buffer, byteOffset, byteLength));
    yield* come.splice(0);
  }
}

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

/** Who watches. */
export interface WatchHandler {
  /** How many of the latest events to begin with; none when undefined. */
  readonly latest: number | undefined;
  /** Whether an event is to be told. */
  readonly isWanted: (event: ReceivedEvent) => boolean;
  readonly onEvent: (event: ReceivedEvent) => void;
  /** Events are told from now on. */
  readonly onBegin: () => void;
  /** They are told again after a gap; called before those of the gap that are still known. */
  readonly onResume: (missed: EventGap) => void;
}

/** The events of tool calls, over as many connections as it takes: none is told twice, and gaps are closed. */
export class Watch {
  readonly #context: Context;
  readonly #handler: WatchHandler;
  readonly #cursor = new EventCursor();
  #begun = false;
  #listening = false;

  constructor(context: Context, handler: WatchHandler) {
    this.#context = context;
    this.#handler = handler;
  }

  /** Whether it has ever come as far as to tell events. */
  get begun(): boolean {
    return this.#begun;
  }

  /** Whether the last connection has come so far. */
  get listening(): boolean {
    return this.#listening;
  }

  /** One connection: resolves when the service ends the stream, rejects as any request, and when the signal is aborted. */
  async listen(ended: AbortSignal): Promise<void> {
    this.#listening = false;
    const connection = new AbortController();
    const signal = AbortSignal.any([ended, connection.signal]);
    try {
      // Each time anew: a log-in may have to be renewed.
      const client = await this.#context.connect();
      const stream = await open(client, signal);
      // Asked for now that nothing can fall between the list and the stream.
      await (this.#begun ? this.#resume(client, signal) : this.#begin(client, signal));
      this.#listening = true;
      for await (const data of readEvents(stream)) {
        const event = parseEvent(data, this.#context.options().host);
        if (this.#cursor.advance(event)) this.#emit(event);
      }
    } finally {
      connection.abort();
    }
  }

  async #begin(client: Client, signal: AbortSignal): Promise<void> {
    const { latest, isWanted, onBegin } = this.#handler;
    const kept = await fetchRecentEvents(client, latest === undefined ? 1 : TOOL_CALL_EVENT_CAPACITY, signal);
    this.#begun = true;
    onBegin();
    if (latest === undefined) return this.#cursor.startAfter(kept[0]);
    this.#cursor.reset(kept);
    for (const event of kept.filter(isWanted).slice(0, latest).toReversed()) this.#emit(event);
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

/** The latest events, newest first. */
function fetchRecentEvents(client: Client, limit: number, signal: AbortSignal): Promise<readonly ReceivedEvent[]> {
  return unwrap(client.GET('/api/v1/tool-calls', { params: { query: { limit: String(limit) } }, signal }));
}

function parseEvent(data: string, host: string): ReceivedEvent {
  const value = parseOrUndefined(data);
  if (isReceivedEvent(value)) return value;
  throw notManagementApi(host, ['its stream has something else than events of tool calls']);
}

function parseOrUndefined(data: string): unknown {
  try {
    return parseLossless(data);
  } catch {
    return undefined;
  }
}

import { TOOL_CALL_EVENT_CAPACITY } from '@sluice/contract';
import { type Client, unwrap, unwrapStream } from '@sluice/contract/client';
import { parseLossless } from '@sluice/protocol/json/parse';
import { notTheApi } from '../connection/check-answer.ts';
import { EVENT_STREAM, eventsOf } from '../connection/event-stream.ts';
import type { Context } from '../context.ts';
import { Bookmark, type Missed } from './bookmark.ts';
import { isSeenEvent, type SeenEvent } from './seen-event.ts';

/** Who watches. */
export interface Watcher {
  /** How many of the latest events to begin with; none when undefined. */
  readonly latest: number | undefined;
  /** Whether an event is to be told. */
  readonly wants: (event: SeenEvent) => boolean;
  readonly onEvent: (event: SeenEvent) => void;
  /** Events are told from now on. */
  readonly onBegin: () => void;
  /** They are told again after a gap; called before those of the gap that are still known. */
  readonly onResume: (missed: Missed) => void;
}

/** The events of tool calls, over as many connections as it takes: none is told twice, and gaps are closed. */
export class Watch {
  readonly #context: Context;
  readonly #watcher: Watcher;
  readonly #bookmark = new Bookmark();
  #begun = false;
  #listening = false;

  constructor(context: Context, watcher: Watcher) {
    this.#context = context;
    this.#watcher = watcher;
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
      for await (const data of eventsOf(stream)) {
        const event = eventOf(data, this.#context.options().host);
        if (this.#bookmark.read(event)) this.#tell(event);
      }
    } finally {
      connection.abort();
    }
  }

  async #begin(client: Client, signal: AbortSignal): Promise<void> {
    const { latest, wants, onBegin } = this.#watcher;
    const kept = await keptEvents(client, latest === undefined ? 1 : TOOL_CALL_EVENT_CAPACITY, signal);
    this.#begun = true;
    onBegin();
    if (latest === undefined) return this.#bookmark.beginAt(kept[0]);
    this.#bookmark.readAll(kept);
    for (const event of kept.filter(wants).slice(0, latest).toReversed()) this.#tell(event);
  }

  async #resume(client: Client, signal: AbortSignal): Promise<void> {
    const missed = this.#bookmark.catchUp(await keptEvents(client, TOOL_CALL_EVENT_CAPACITY, signal));
    this.#watcher.onResume(missed);
    for (const event of missed.events) this.#tell(event);
  }

  #tell(event: SeenEvent): void {
    if (this.#watcher.wants(event)) this.#watcher.onEvent(event);
  }
}

function open(client: Client, signal: AbortSignal): Promise<ReadableStream<Uint8Array>> {
  const headers = { accept: EVENT_STREAM };
  return unwrapStream(client.GET('/api/v1/tool-calls/notifications', { parseAs: 'stream', headers, signal }));
}

/** The latest events, newest first. */
function keptEvents(client: Client, limit: number, signal: AbortSignal): Promise<readonly SeenEvent[]> {
  return unwrap(client.GET('/api/v1/tool-calls', { params: { query: { limit: String(limit) } }, signal }));
}

function eventOf(data: string, host: string): SeenEvent {
  const value = parsed(data);
  if (isSeenEvent(value)) return value;
  throw notTheApi(host, ['its stream has something else than events of tool calls']);
}

function parsed(data: string): unknown {
  try {
    return parseLossless(data);
  } catch {
    return undefined;
  }
}

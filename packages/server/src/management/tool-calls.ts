import { Readable } from 'node:stream';
import { MAX_TOOL_CALL_STREAMS, operations, TOOL_CALL_EVENT_CAPACITY } from '@sluice/contract';
import type { OpenStream } from '../mcp/open-streams.ts';
import { OperationError } from '../registry/operation-error.ts';
import { eventOf, type ToolCallRecord } from '../telemetry/tool-calls/event.ts';
import type { EventCursor, ToolCallEvents, ToolCallListener } from '../telemetry/tool-calls/events.ts';
import type { ManagementContext } from './context.ts';
import { listResponse } from './responses.ts';
import { parseLimit, type Router } from './router.ts';

/**
 * Serialized tool-call events, shared by all streams: created when an event is first sent, and cached while a stream has
 * to send it. Serializing per stream would cost time and memory for each client.
 */
export class EventTexts {
  readonly #serialized = new WeakMap<ToolCallRecord, WeakRef<Buffer>>();

  of(record: ToolCallRecord): Buffer {
    const cached = this.#serialized.get(record)?.deref();
    if (cached) return cached;
    const event = eventOf(record);
    const text = Buffer.from(`event: ${event.eventType}\nid: ${event.eventId}\ndata: ${JSON.stringify(event)}\n\n`);
    this.#serialized.set(record, new WeakRef(text));
    return text;
  }
}

/**
 * Server-sent events of tool calls for one client (decisions 6). Events are read as fast as the client reads them. A client
 * that is too far behind is disconnected, so that it detects the missed events.
 */
class ToolCallStream extends Readable implements OpenStream, ToolCallListener {
  readonly #events: EventCursor;
  readonly #texts: EventTexts;
  readonly #onOverflow: () => void;

  /** `onOverflow` is called when the client is too far behind. */
  constructor(events: Pick<ToolCallEvents, 'listen'>, texts: EventTexts, onOverflow: () => void) {
    super();
    this.#texts = texts;
    this.#onOverflow = onOverflow;
    this.#events = events.listen(this);
    // Sends the response head before the first event.
    this.keepAlive();
  }

  /**
   * Pushes at least one event if there is one. Node.js calls this while the buffer is not full, and not again before
   * something was pushed.
   */
  override _read(): void {
    if (this.#pushNext()) this.ready();
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#events.close();
    done(error);
  }

  ready(): void {
    while (this.readableLength < this.readableHighWaterMark && this.#pushNext());
  }

  overflow(): void {
    this.#onOverflow();
    this.destroy();
  }

  keepAlive(): void {
    // Not needed while the client has unread data.
    if (this.readableLength === 0) this.push(':\n\n');
  }

  end(): void {
    this.#events.close();
    this.push(null);
  }

  /** False when there are no more events. */
  #pushNext(): boolean {
    const record = this.#events.next();
    if (record) this.push(this.#texts.of(record));
    return record !== undefined;
  }
}

const DEFAULT_LIMIT = 100;

/** `/api/v1/tool-calls`: recent tool-call events and their stream (decisions 6). */
export function toolCallRoutes(router: Router, { toolCalls, openStreams, log }: ManagementContext): void {
  const { list, notifications } = operations.toolCalls;
  const texts = new EventTexts();
  let streamCount = 0;

  router.add(list, ({ query }) => {
    const category = list.query.category.values.find((known) => known === query('category'));
    const found = toolCalls.recent({
      toolName: query('toolName'),
      category,
      limit: parseLimit(query('limit')) ?? DEFAULT_LIMIT,
    });
    return listResponse(found, (record) => JSON.stringify(eventOf(record)));
  });

  router.add(notifications, ({ http }) => {
    if (streamCount >= MAX_TOOL_CALL_STREAMS) {
      throw new OperationError(
        'UNAVAILABLE',
        `too many event streams: at most ${MAX_TOOL_CALL_STREAMS} can be open; try again later`,
      );
    }
    const headers = {
      'content-type': 'text/event-stream',
      'cache-control': 'no-store, no-transform',
      // nginx would buffer the events.
      'x-accel-buffering': 'no',
    };
    // A response to HEAD has no body, and the stream would never end.
    if (http.method === 'HEAD') return { status: 200, headers, body: '' };
    const stream = new ToolCallStream(toolCalls, texts, () =>
      log.info('slow event-stream client disconnected', {
        behind: TOOL_CALL_EVENT_CAPACITY,
      }),
    );
    streamCount++;
    stream.once('close', () => streamCount--);
    stream.once('close', openStreams.add(stream));
    return { status: 200, headers, body: stream };
  });
}

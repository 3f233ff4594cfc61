import { Readable } from 'node:stream';
import { MAX_TOOL_CALL_STREAMS, operations, TOOL_CALL_EVENT_CAPACITY } from '@sluice/contract';
import type { FastifyInstance } from 'fastify';
import type { LongStream } from '../mcp/long-streams.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import {
  type EventCursor,
  eventOf,
  type ToolCallEvents,
  type ToolCallListener,
  type ToolCallRecord,
} from '../telemetry/tool-calls/events.ts';
import { RequestError, route, sendList } from './route.ts';
import type { ManagementContext } from './server.ts';

/**
 * What an event is in an event stream: made when it is first sent, shared by all streams, and there for as long as one of
 * them has it to send. Each stream on its own would hold up calls, and take memory, as many times as there are watchers.
 */
export class EventTexts {
  readonly #made = new WeakMap<ToolCallRecord, WeakRef<Buffer>>();

  of(record: ToolCallRecord): Buffer {
    const made = this.#made.get(record)?.deref();
    if (made) return made;
    const event = eventOf(record);
    const text = Buffer.from(`event: ${event.eventType}\nid: ${event.eventId}\ndata: ${JSON.stringify(event)}\n\n`);
    this.#made.set(record, new WeakRef(text));
    return text;
  }
}

/**
 * What one client is told of tool calls as they go on, as server-sent events (decisions 6). It is read as fast as its client
 * reads it. It breaks off when the client is too far behind, so that the client knows that it missed something.
 */
export class ToolCallStream extends Readable implements LongStream, ToolCallListener {
  readonly #events: EventCursor;
  readonly #texts: EventTexts;
  readonly #onLost: () => void;

  /** `onLost` is called when the client is too far behind. */
  constructor(events: Pick<ToolCallEvents, 'listen'>, texts: EventTexts, onLost: () => void) {
    super();
    this.#texts = texts;
    this.#onLost = onLost;
    this.#events = events.listen(this);
    // The client is to have its head before something happens.
    this.keepAlive();
  }

  /**
   * Asked for more: that is one event at least, where there is one. Node asks while what there is still fills the buffer,
   * and not again before something came.
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

  lost(): void {
    this.#onLost();
    this.destroy();
  }

  keepAlive(): void {
    // A client that has not read what there is needs no sign of life.
    if (this.readableLength === 0) this.push(':\n\n');
  }

  end(): void {
    this.#events.close();
    this.push(null);
  }

  /** False when all events were read. */
  #pushNext(): boolean {
    const record = this.#events.next();
    if (record) this.push(this.#texts.of(record));
    return record !== undefined;
  }
}

const DEFAULT_LIMIT = 100;

/** `/api/v1/tool-calls`: what is told of tool calls (decisions 6). */
export function toolCallRoutes(
  app: FastifyInstance,
  { toolCalls, longStreams }: ManagementContext,
  log: TargetLogger,
): void {
  const { list, notifications } = operations.toolCalls;
  const texts = new EventTexts();
  let watching = 0;

  route(app, list, ({ query }, reply) => {
    const category = list.query.category.values.find((known) => known === query('category'));
    const found = toolCalls.recent({ toolName: query('toolName'), category, limit: limitOf(query('limit')) });
    return sendList(reply, found, (record) => JSON.stringify(eventOf(record)));
  });

  route(app, notifications, (_request, reply) => {
    if (watching >= MAX_TOOL_CALL_STREAMS) {
      throw new RequestError(
        'UNAVAILABLE',
        `${MAX_TOOL_CALL_STREAMS} clients watch tool calls already, and no more can: try again when one has left`,
      );
    }
    reply.type('text/event-stream').header('cache-control', 'no-store');
    // The answer to HEAD has no body, and nobody would end the stream.
    if (reply.request.method === 'HEAD') return reply.send('');
    const stream = new ToolCallStream(toolCalls, texts, () =>
      log.info('a client that watches tool calls is disconnected: it is too far behind', {
        behind: TOOL_CALL_EVENT_CAPACITY,
      }),
    );
    watching++;
    stream.once('close', () => watching--);
    stream.once('close', longStreams.add(stream));
    return reply.send(stream);
  });
}

/** How many are asked for; what is no number from 1 on counts as nothing said. No more than are kept can be found. */
function limitOf(text: string | undefined): number {
  const limit = text !== undefined && /^[0-9]+$/.test(text) ? Number(text) : 0;
  return limit > 0 ? limit : DEFAULT_LIMIT;
}

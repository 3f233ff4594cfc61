import { MAX_TOOL_CALL_STREAMS, operations, TOOL_CALL_EVENT_CAPACITY, type ToolCallEvent } from '@sluice/contract';
import { eventOf, type ToolCallRecord } from '../telemetry/tool-calls/event.ts';
import type { ManagementContext } from './context.ts';
import { EventStreams } from './event-stream.ts';
import { listResponse } from './responses.ts';
import { parseLimit, type Router } from './router.ts';

/**
 * Serialized tool-call events, shared by all streams: created when an event is first sent, and cached while a stream has
 * to send it. Serializing per stream would cost time and memory for each client.
 */
export class EventTexts {
  readonly #serialize: (event: ToolCallEvent) => Buffer;
  readonly #serialized = new WeakMap<ToolCallRecord, WeakRef<Buffer>>();

  constructor(serialize: (event: ToolCallEvent) => Buffer) {
    this.#serialize = serialize;
  }

  of(record: ToolCallRecord): Buffer {
    const cached = this.#serialized.get(record)?.deref();
    if (cached) return cached;
    const text = this.#serialize(eventOf(record));
    this.#serialized.set(record, new WeakRef(text));
    return text;
  }
}

/** Returns the text of an event in a stream of tool calls alone (decisions 6). */
export function toolCallText(event: ToolCallEvent): Buffer {
  return Buffer.from(`event: ${event.eventType}\nid: ${event.eventId}\ndata: ${JSON.stringify(event)}\n\n`);
}

const DEFAULT_LIMIT = 100;

/** `/api/v1/tool-calls`: recent tool-call events and their stream (decisions 6). */
export function toolCallRoutes(router: Router, { toolCalls, openStreams, log }: ManagementContext): void {
  const { list, notifications } = operations.toolCalls;
  const texts = new EventTexts(toolCallText);
  const streams = new EventStreams(openStreams, MAX_TOOL_CALL_STREAMS);

  router.add(list, ({ query }) => {
    const category = list.query.category.values.find((known) => known === query('category'));
    const found = toolCalls.recent({
      toolName: query('toolName'),
      category,
      limit: parseLimit(query('limit')) ?? DEFAULT_LIMIT,
    });
    return listResponse(found, (record) => JSON.stringify(eventOf(record)));
  });

  router.add(notifications, ({ http }) =>
    streams.respond(http, (stream) => {
      const cursor = toolCalls.ring.listen({
        ready: () => stream.ready(),
        overflow() {
          // A client that is too far behind is disconnected, so that it detects the missed events.
          cursor.close();
          log.info('slow event-stream client disconnected', { behind: TOOL_CALL_EVENT_CAPACITY });
          stream.destroy();
        },
      });
      return {
        next() {
          const record = cursor.next();
          return record && texts.of(record);
        },
        close: () => cursor.close(),
      };
    }),
  );
}

import {
  MAX_TOOL_CALL_STREAMS,
  operations,
  TOOL_CALL_EVENT_CAPACITY,
  type ToolCallEvent,
  toolCallEvent,
} from '@sluice/contract';
import type { QueryHandlers } from '../http/peers.ts';
import { jsonLines } from '../http/response-body.ts';
import { eventOf, type ToolCallRecord } from '../telemetry/tool-calls/event.ts';
import type { EventFilter, ToolCallEvents } from '../telemetry/tool-calls/events.ts';
import type { ManagementContext } from './context.ts';
import { EventStreams } from './event-stream.ts';
import { LIST_TIMEOUT_MS, listResponse, withMissing } from './responses.ts';
import { parseLimit, type Router } from './router.ts';

/**
 * Serialized tool-call events, shared by all streams: created when an event is first sent, and cached while a stream has
 * to send it. Serializing per stream would cost time and memory for each client.
 */
export function eventTexts(serialize: (event: ToolCallEvent) => Buffer): (record: ToolCallRecord) => Buffer {
  const serialized = new WeakMap<ToolCallRecord, WeakRef<Buffer>>();
  return (record) => {
    const cached = serialized.get(record)?.deref();
    if (cached) return cached;
    const text = serialize(eventOf(record));
    serialized.set(record, new WeakRef(text));
    return text;
  };
}

/** Returns the text of an event in a stream of tool calls alone. */
export function toolCallText(event: ToolCallEvent): Buffer {
  return Buffer.from(`event: ${event.eventType}\nid: ${event.eventId}\ndata: ${JSON.stringify(event)}\n\n`);
}

const DEFAULT_LIMIT = 100;

const QUERY = '/tool-calls';
/** Bytes of the response of another replica. */
const RESPONSE_BYTES = 32 * 1024 * 1024;

/** The events that the query parameters select. Without those that do not apply, so that they can be passed on. */
function filterOf(query: (name: 'toolName' | 'category' | 'limit') => string | undefined): EventFilter {
  const toolName = query('toolName');
  const category = operations.toolCalls.list.query.category.values.find((known) => known === query('category'));
  const limit = parseLimit(query('limit')) ?? DEFAULT_LIMIT;
  return { ...(toolName !== undefined && { toolName }), ...(category && { category }), limit };
}

/** What this replica responds when another one lists tool calls. */
export function toolCallQueries(toolCalls: Pick<ToolCallEvents, 'recent'>): QueryHandlers {
  return {
    [`GET ${QUERY}`]: (query) =>
      jsonLines(Iterator.from(toolCalls.recent(filterOf((name) => query.get(name) ?? undefined))).map(eventOf)),
  };
}

/** `/api/v1/tool-calls`: recent tool-call events and their stream. */
export function toolCallRoutes(router: Router, { toolCalls, peers, openStreams, log }: ManagementContext): void {
  const { list, notifications } = operations.toolCalls;
  const textOf = eventTexts(toolCallText);
  const streams = new EventStreams(openStreams, MAX_TOOL_CALL_STREAMS);

  router.add(list, async ({ query }) => {
    const filter = filterOf(query);
    const found = toolCalls.recent(filter);
    if (!peers) return listResponse(found, (record) => JSON.stringify(eventOf(record)));
    const { responses, missingReplicas } = await peers.query({
      target: `${QUERY}?${new URLSearchParams(Object.entries(filter).map(([name, value]) => [name, String(value)]))}`,
      timeoutMs: LIST_TIMEOUT_MS,
      maxBytes: RESPONSE_BYTES,
      parse: (event) => toolCallEvent.parse(event),
    });
    const events = [...found.map(eventOf), ...responses.flat()]
      .sort((a, b) => Date.parse(b.timestamp) - Date.parse(a.timestamp))
      .slice(0, Math.min(filter.limit, TOOL_CALL_EVENT_CAPACITY));
    return withMissing(
      listResponse(events, (event) => JSON.stringify(event)),
      missingReplicas,
    );
  });

  router.add(notifications, ({ http, caller }) =>
    streams.respond({ http, caller }, (stream) => {
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
          return record && textOf(record);
        },
        close: () => cursor.close(),
      };
    }),
  );
}

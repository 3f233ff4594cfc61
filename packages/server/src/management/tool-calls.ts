import { MAX_TOOL_CALL_STREAMS, operations, TOOL_CALL_EVENT_CAPACITY } from '@sluice/contract';
import type { FastifyInstance } from 'fastify';
import type { TargetLogger } from '../telemetry/log.ts';
import { eventOf } from '../telemetry/tool-calls/tool-call-record.ts';
import { RequestError, sendList } from './answer.ts';
import type { ManagementContext } from './context.ts';
import { EventTexts } from './event-texts.ts';
import { route } from './route.ts';
import { ToolCallStream } from './tool-call-stream.ts';

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

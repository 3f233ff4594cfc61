import { operations } from '@sluice/contract';
import type { FastifyInstance } from 'fastify';
import { eventOf } from '../telemetry/tool-calls/tool-call-record.ts';
import { sendList } from './answer.ts';
import type { ManagementContext } from './context.ts';
import { route } from './route.ts';
import { ToolCallStream } from './tool-call-stream.ts';

const DEFAULT_LIMIT = 100;

/** `/api/v1/tool-calls`: what is told of tool calls (decisions 6). */
export function toolCallRoutes(app: FastifyInstance, { toolCalls, longStreams }: ManagementContext): void {
  const { list, notifications } = operations.toolCalls;

  route(app, list, ({ query }, reply) => {
    const category = list.query.category.values.find((known) => known === query('category'));
    const found = toolCalls.recent({ toolName: query('toolName'), category, limit: limitOf(query('limit')) });
    return sendList(reply, found, (record) => JSON.stringify(eventOf(record)));
  });

  route(app, notifications, (_request, reply) => {
    reply.type('text/event-stream').header('cache-control', 'no-store');
    // The answer to HEAD has no body, and nobody would end the stream.
    if (reply.request.method === 'HEAD') return reply.send('');
    const stream = new ToolCallStream(toolCalls);
    stream.once('close', longStreams.add(stream));
    return reply.send(stream);
  });
}

/** How many are asked for; what is no number of events counts as nothing said. */
function limitOf(text: string | undefined): number {
  const limit = text !== undefined && /^[0-9]+$/.test(text) ? Number(text) : 0;
  return limit > 0 ? limit : DEFAULT_LIMIT;
}

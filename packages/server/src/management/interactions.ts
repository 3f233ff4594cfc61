import { Readable } from 'node:stream';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { operations } from '@sluice/contract';
import type { FastifyInstance } from 'fastify';
import type { Interaction } from '../inference/interaction.ts';
import { sendData } from './answer.ts';
import type { ManagementContext } from './context.ts';
import { interactionJson, type JsonPieces } from './interaction-json.ts';
import { route } from './route.ts';

/** Bytes that are put together in one turn of the event loop; an answer in one piece has fewer. */
const SLICE = 128 * 1024;

/** `/api/v1/interactions`: the completions that were recorded (specification, "Endpoints"; decisions 4.4). */
export function interactionRoutes(app: FastifyInstance, { interactions }: ManagementContext): void {
  const { interactions: list, clearInteractions: clear } = operations.inference;

  route(app, list, ({ query }, reply) => {
    const found = interactions.list({
      conversationId: query('conversation_id'),
      completionId: query('completion_id'),
      limit: limitOf(query('limit')),
    });
    const slices = slicesOf(listJson(found, query('bodies') !== 'false'));
    const first = slices.next().value ?? Buffer.alloc(0);
    if (first.length < SLICE) return sendData(reply, first.toString());
    // The whole may have hundreds of MiB: it is made as fast as the client reads it.
    return reply.type('application/json').send(Readable.from(inEnvelope(first, slices), { objectMode: false }));
  });

  route(app, clear, (_request, reply) => {
    interactions.clear();
    return sendData(reply, '{"cleared":true}');
  });
}

/** How many are asked for; what is no such number counts as nothing said. */
function limitOf(text: string | undefined): number | undefined {
  const limit = text !== undefined && /^[0-9]+$/.test(text) ? Number(text) : 0;
  return limit > 0 ? limit : undefined;
}

function* listJson(found: readonly Interaction[], withBodies: boolean): JsonPieces {
  yield '[';
  let isFirst = true;
  for (const interaction of found) {
    if (!isFirst) yield ',';
    isFirst = false;
    yield* interactionJson(interaction, withBodies);
  }
  yield ']';
}

/** The pieces in slices of this size; the last one is smaller, and perhaps empty. */
function* slicesOf(pieces: JsonPieces): Generator<Buffer, undefined> {
  let parts: Buffer[] = [];
  let room = SLICE;
  for (const piece of pieces) {
    let rest = typeof piece === 'string' ? Buffer.from(piece) : piece;
    while (rest.length >= room) {
      parts.push(rest.subarray(0, room));
      rest = rest.subarray(room);
      yield Buffer.concat(parts);
      parts = [];
      room = SLICE;
    }
    parts.push(rest);
    room -= rest.length;
  }
  yield Buffer.concat(parts);
}

async function* inEnvelope(first: Buffer, others: Iterable<Buffer>): AsyncGenerator<Buffer> {
  yield Buffer.from('{"data":');
  yield first;
  for (const slice of others) {
    await nextTurn();
    yield slice;
  }
  yield Buffer.from(',"error":null}');
}

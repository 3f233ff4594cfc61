import { Readable } from 'node:stream';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { operations } from '@sluice/contract';
import type { FastifyInstance } from 'fastify';
import { httpUpstream, InvalidSettingError, quote } from '../http/address.ts';
import type { Interaction, RecordedBody } from '../inference/interaction-store.ts';
import type { InferenceChange, InferenceSettings } from '../inference/settings.ts';
import { RequestError, route, routeWithBody, sendData } from './route.ts';
import type { ManagementContext } from './server.ts';

/** Pieces of JSON, texts or bytes, that follow each other. */
export type JsonPieces = Generator<string | Buffer>;

/** An interaction as it is answered (decisions 2.9). Bodies that are JSON are handed on as they were sent. */
export function* interactionJson(interaction: Interaction, withBodies: boolean): JsonPieces {
  const { request, response } = interaction;
  const head = {
    epoch_ms: interaction.epochMs,
    path: interaction.path,
    conversation_id: interaction.conversationId,
    completion_id: interaction.completionId,
    model: interaction.model,
  };
  yield JSON.stringify(head).slice(0, -1);
  if (withBodies) {
    yield ',"request_body":';
    yield bodyJson(request);
    yield ',"response_body":';
    yield bodyJson(response);
  }
  const rest = {
    status_code: interaction.statusCode,
    duration_ms: interaction.durationMs,
    ...(request.truncated && { request_truncated: true }),
    ...(response.truncated && { response_truncated: true }),
  };
  yield `,${JSON.stringify(rest).slice(1)}`;
}

function bodyJson({ body }: RecordedBody): string | Buffer {
  if (body === undefined) return 'null';
  return body.isJson ? body.bytes : JSON.stringify(body.bytes.toString());
}

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

/** `/api/v1/config/inference`: where the inference listener forwards to, and how much it records (decisions 4.4). */
export function inferenceConfigRoutes(app: FastifyInstance, { inference }: ManagementContext): void {
  const { configure } = operations.inference;

  routeWithBody(app, configure, async ({ body: { upstream, capacity } }, reply) => {
    set(inference, { upstream, capacity });
    return sendData(reply, JSON.stringify({ upstream: inference.upstreamText, capacity: inference.capacity }));
  });
}

function set(inference: InferenceSettings, change: InferenceChange): void {
  try {
    inference.set(change);
  } catch (error) {
    if (!(error instanceof InvalidSettingError)) throw error;
    const message = `${quote(change.upstream ?? '')} ${error.message}; accepted: ${httpUpstream.accepts}`;
    throw new RequestError('BAD_REQUEST', `invalid ${operations.inference.configure.body.kind}: upstream ${message}`, [
      { path: 'upstream', message },
    ]);
  }
}

import { Readable } from 'node:stream';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { ERROR_STATUS, type ErrorCode } from '@sluice/contract';
import type { FastifyReply } from 'fastify';
import type { PlainOutcome } from '../answer/outcome.ts';

/** A request that the API itself refuses. The message is answered, so it names what to do and carries no internals. */
export class RequestError extends Error {
  override readonly name = 'RequestError';
  readonly code: ErrorCode;
  readonly details: unknown;

  constructor(code: ErrorCode, message: string, details?: unknown) {
    super(message);
    this.code = code;
    this.details = details;
  }
}

/** The envelope around a payload (specification, "Response envelope"). Both are JSON text. */
function envelope(data: string, warnings?: string): string {
  return `{"data":${data},"error":null${warnings === undefined ? '' : `,"warnings":${warnings}`}}`;
}

/** The envelope around an error (decisions 2.1). */
export function errorEnvelope(code: ErrorCode, message: string, details?: unknown): string {
  return JSON.stringify({ data: null, error: { code, message, ...(details !== undefined && { details }) } });
}

/** An error as an answer that is not Fastify's to write. */
export function plainError(code: ErrorCode, message: string): PlainOutcome {
  const headers = ['Content-Type', 'application/json'];
  return { kind: 'plain', status: ERROR_STATUS[code], headers, body: errorEnvelope(code, message) };
}

/** Answers with a payload that is JSON text already: entries keep the spelling of their numbers. */
export function sendData(reply: FastifyReply, data: string, status = 200): FastifyReply {
  return sendJson(reply, envelope(data), status);
}

/** Answers with a payload, and with warnings beside it when there are any (decisions 2.1). Both are JSON text. */
export function sendWarned(reply: FastifyReply, data: string, warnings: string | undefined): FastifyReply {
  return sendJson(reply, envelope(data, warnings), 200);
}

/** Answers with an error. */
export function sendError(reply: FastifyReply, code: ErrorCode, message: string, details?: unknown): FastifyReply {
  return sendJson(reply, errorEnvelope(code, message, details), ERROR_STATUS[code]);
}

/** Items rendered in one turn of the event loop: about a millisecond of work. */
const SLICE = 200;

/**
 * Answers with a list. A long one is rendered a slice per turn while it is sent, so that listing 100,000 tools holds up
 * nobody else's request.
 */
export function sendList<T>(reply: FastifyReply, items: readonly T[], render: (item: T) => string): FastifyReply {
  if (items.length <= SLICE) return sendData(reply, `[${items.map(render).join(',')}]`);
  return reply.type('application/json').send(Readable.from(slices(items, render), { objectMode: false }));
}

async function* slices<T>(items: readonly T[], render: (item: T) => string): AsyncGenerator<Buffer> {
  yield Buffer.from('{"data":[');
  for (let at = 0; at < items.length; at += SLICE) {
    const text = items
      .slice(at, at + SLICE)
      .map(render)
      .join(',');
    yield Buffer.from(at === 0 ? text : `,${text}`);
    await nextTurn();
  }
  yield Buffer.from('],"error":null}');
}

function sendJson(reply: FastifyReply, text: string, status: number): FastifyReply {
  // As bytes, because Fastify adds a charset to text, which JSON has not got.
  return reply.code(status).type('application/json').send(Buffer.from(text));
}

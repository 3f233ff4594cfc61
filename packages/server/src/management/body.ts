import { validate } from '@sluice/contract';
import { isJsonObject, type JsonValue, parseLossless } from '@sluice/protocol/json/parse';
import type { FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { RequestError } from './answer.ts';

/** Levels of nesting in a body. What is deeper than any schema of a tool could exhaust the stack of whoever reads it. */
const DEEPEST = 256;

/**
 * The request's body as the schema's type. `kind` names what it describes. RequestError BAD_REQUEST when it is missing
 * (one that is `optional` is `{}` then), is no JSON object in UTF-8, or breaks the schema; the message then names the
 * first member concerned and `details` has all of them (decisions 2.1, 4.1).
 */
export function readBody<T extends z.ZodType>(
  request: FastifyRequest,
  kind: string,
  schema: T,
  optional = false,
): z.output<T> {
  const { body } = request;
  const text = Buffer.isBuffer(body) ? textOf(body, kind) : '';
  const missing = text.trim() === '';
  if (missing && !optional) throw new RequestError('BAD_REQUEST', 'request body required');
  const result = validate(schema, missing ? {} : parse(text, kind));
  if ('value' in result) return result.value;
  const [first] = result.issues;
  throw new RequestError('BAD_REQUEST', `invalid ${kind}: ${first?.path} ${first?.message}`, result.issues);
}

function textOf(body: Buffer, kind: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(body);
  } catch {
    throw unreadable(kind, 'not valid UTF-8');
  }
}

function parse(text: string, kind: string): JsonValue {
  let value: JsonValue;
  try {
    value = parseLossless(text);
  } catch (error) {
    // Besides a SyntaxError, nesting beyond the parser's own stack ends here.
    throw unreadable(kind, error instanceof SyntaxError ? error.message : 'nested too deeply');
  }
  if (!isJsonObject(value)) throw unreadable(kind, 'not an object');
  if (isDeeperThan(value, DEEPEST)) throw unreadable(kind, `nested deeper than ${DEEPEST} levels`);
  return value;
}

function unreadable(kind: string, reason: string): RequestError {
  return new RequestError('BAD_REQUEST', `invalid ${kind} JSON: ${reason}`);
}

function isDeeperThan(value: JsonValue, levels: number): boolean {
  if (typeof value !== 'object' || value === null || JSON.isRawJSON(value)) return false;
  return levels === 0 || Object.values(value).some((inner) => isDeeperThan(inner, levels - 1));
}

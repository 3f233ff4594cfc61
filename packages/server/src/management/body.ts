import { type RequestBody, validate } from '@sluice/contract';
import { isJsonObject, type JsonObject, type JsonValue, parseLossless } from '@sluice/protocol/json/parse';
import { type JsonKind, JsonScanner, type JsonSink } from '@sluice/protocol/json/scanner';
import type { z } from 'zod';
import { OperationError } from '../registry/operation-error.ts';

/** Maximum nesting of a body: deeper values could exhaust the stack of a consumer. */
const MAX_DEPTH = 256;
/** Maximum number of values in a body; 1 MiB may have 500,000, which take half a second to parse. */
const MAX_VALUES = 25_000;
/** Maximum number of members of one object: validating those of the body itself takes longer than parsing them. */
const MAX_MEMBERS = 5_000;

/** Bytes that are scanned before the limits are checked. */
const CHUNK = 32 * 1024;

/**
 * Parses a request body with a schema. `kind` is the name of the resource in messages. OperationError BAD_REQUEST when the body
 * is missing (unless `optional`: then it is `{}`), is not a JSON object in UTF-8, has a duplicate key or more values than a body
 * may have, or does not match the schema; the message has the first issue and `details` all of them.
 */
export function parseBody<T extends z.ZodType>(
  body: Buffer,
  schema: T | ((object: JsonObject) => T),
  { kind, optional }: Pick<RequestBody, 'kind' | 'optional'>,
): z.output<T> {
  const text = decode(body, kind);
  const missing = text.trim() === '';
  if (missing && !optional) throw new OperationError('BAD_REQUEST', 'request body required');
  if (!missing) checkLimits(body, kind);
  const object = missing ? {} : parseObject(text, kind);
  const result = validate(typeof schema === 'function' ? schema(object) : schema, object);
  if ('value' in result) return result.value;
  const [first] = result.issues;
  throw new OperationError('BAD_REQUEST', `invalid ${kind}: ${first?.path} ${first?.message}`, result.issues);
}

function decode(body: Buffer, kind: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(body);
  } catch {
    throw malformed(kind, 'not valid UTF-8');
  }
}

/** Scans a body before anything in it is parsed. Invalid JSON passes: the parser describes it better. */
function checkLimits(body: Buffer, kind: string): void {
  const counts = new BodyCounts();
  const scanner = new JsonScanner(counts);
  for (let at = 0; at < body.length && !scanner.isInvalid; at += CHUNK) {
    scanner.write(body.subarray(at, at + CHUNK));
    if (scanner.maxDepth > MAX_DEPTH) throw malformed(kind, `nested deeper than ${MAX_DEPTH} levels`);
    if (counts.values > MAX_VALUES) throw malformed(kind, `more than ${MAX_VALUES} values`);
    if (counts.maxMembers > MAX_MEMBERS) throw malformed(kind, `an object with more than ${MAX_MEMBERS} members`);
  }
}

/** Counts the values of a text, and the members of its largest object. */
class BodyCounts implements JsonSink {
  values = 0;
  maxMembers = 0;
  /** Members of the open containers, outermost first; an array has none. */
  readonly #open: number[] = [];
  #isScalar = false;

  onValue(kind: JsonKind): boolean {
    this.values++;
    this.#isScalar = kind !== 'object' && kind !== 'array';
    if (!this.#isScalar) this.#open.push(0);
    return !this.#isScalar;
  }

  onKey(): void {
    const members = (this.#open.pop() ?? 0) + 1;
    this.#open.push(members);
    if (members > this.maxMembers) this.maxMembers = members;
  }

  onScalar(): void {}

  onEnd(): void {
    if (!this.#isScalar) this.#open.pop();
    this.#isScalar = false;
  }
}

function parseObject(text: string, kind: string): JsonObject {
  let value: JsonValue;
  try {
    value = parseLossless(text, { uniqueKeys: true });
  } catch (error) {
    throw malformed(kind, error instanceof Error ? error.message : String(error));
  }
  if (!isJsonObject(value)) throw malformed(kind, 'not an object');
  return value;
}

function malformed(kind: string, reason: string): OperationError {
  return new OperationError('BAD_REQUEST', `invalid ${kind} JSON: ${reason}`);
}

import { isUtf8 } from 'node:buffer';
import { isJsonObject, type JsonObject, parseJson } from '../json/parse.ts';
import { applyEdits, type Edit, elements, members, memberText } from '../json/text.ts';
import { isLogLevel } from './capabilities.ts';
import { type Era, INVALID_REQUEST, META_LOG_LEVEL, METHOD_NOT_FOUND, PARSE_ERROR } from './constants.ts';

/** A JSON-RPC batch: several messages in one body, allowed in sessions of 2025-03-26 only (mcp 6). */
export interface Batch {
  readonly kind: 'batch';
  /** The exact text of each element, not validated yet. */
  readonly messages: readonly string[];
  /** True when there are responses to send: an element is a request, possibly an invalid one. */
  readonly hasRequests: boolean;
}

/** All messages of a batch are in flight at the same time. */
const MAX_MESSAGES = 100;

/** Splits a batch into its messages; `value` is the parsed `text`. */
export function parseBatch(text: string, value: readonly unknown[]): Batch | Malformed {
  if (value.length === 0) return malformedBatch('invalid request: empty batch');
  if (value.length > MAX_MESSAGES) {
    return malformedBatch(`invalid request: batch of ${value.length} messages; at most ${MAX_MESSAGES} are allowed`);
  }
  const messages: string[] = [];
  for (const { start, end } of elements(text)) messages.push(text.slice(start, end));
  return { kind: 'batch', messages, hasRequests: value.some(isRequest) };
}

function isRequest(element: unknown): boolean {
  return isJsonObject(element) && typeof element.method === 'string' && 'id' in element;
}

function malformedBatch(message: string): Malformed {
  return { kind: 'malformed', code: INVALID_REQUEST, message, idText: 'null' };
}

/** Position of a value in a text; `end` is exclusive. */
export interface Range {
  readonly start: number;
  readonly end: number;
}

/** A JSON-RPC request: parsed for policy, with its exact text for the relay. */
export interface RequestMessage {
  readonly kind: 'request';
  readonly text: string;
  /** Exact text of the id, repeated in the response. */
  readonly idText: string;
  readonly idRange: Range;
  readonly method: string;
  readonly params: JsonObject;
  /** Undefined when the request has no params. */
  readonly paramsRange: Range | undefined;
}

/** A JSON-RPC notification. */
export interface NotificationMessage {
  readonly kind: 'notification';
  readonly text: string;
  readonly method: string;
  readonly params: JsonObject;
}

/** A response of a legacy client to a server request. */
export interface ResponseMessage {
  readonly kind: 'response';
  readonly text: string;
  readonly idText: string;
  readonly idRange: Range;
}

/** A JSON-RPC message. */
export type Message = RequestMessage | NotificationMessage | ResponseMessage;

/** The JSON-RPC error for an invalid body; `idText` is `null` when it has no valid id. */
export interface Malformed {
  readonly kind: 'malformed';
  readonly code: number;
  readonly message: string;
  readonly idText: string;
}

const NO_PARAMS: JsonObject = {};

/** Characters from which on a value is retained as text only: parsed, it may need twenty times as much memory. */
const LARGE_CHARACTERS = 64 * 1024;

/** Parses a body: a JSON-RPC message, a batch, or the error (mcp 6). */
export function parseMessage(body: Buffer): Message | Batch | Malformed {
  if (!isUtf8(body)) return malformed(PARSE_ERROR, 'parse error: the body is not UTF-8');
  const text = body.toString('utf8');
  let value: unknown;
  try {
    value = parseJson(text);
  } catch (error) {
    return malformed(PARSE_ERROR, `parse error: ${error instanceof Error ? error.message : 'not JSON'}`);
  }
  if (Array.isArray(value)) return parseBatch(text, value);
  if (!isJsonObject(value)) return malformed(INVALID_REQUEST, 'invalid request: expected a JSON object');
  return parseEnvelope(text, value);
}

function parseEnvelope(text: string, value: JsonObject): Message | Malformed {
  let idRange: Range | undefined;
  let paramsRange: Range | undefined;
  let methods = 0;
  let lookalike: string | undefined;
  for (const { key, start, end } of members(text)) {
    if (key === 'id') {
      // The policy would see one of two equal members, and the upstream might use the other.
      if (idRange) return malformed(INVALID_REQUEST, 'invalid request: duplicate member "id"');
      idRange = { start, end };
    } else if (key === 'params') {
      if (paramsRange) return malformed(INVALID_REQUEST, 'invalid request: duplicate member "params"');
      paramsRange = { start, end };
    } else if (key === 'method' && ++methods > 1) {
      return malformed(INVALID_REQUEST, 'invalid request: duplicate member "method"');
    } else if (key !== 'method' && !PLAIN.test(key)) lookalike ??= lookalikeOf(key, ENVELOPE);
  }
  const { jsonrpc, id, method, params = NO_PARAMS } = value;
  const isId = typeof id === 'string' || (typeof id === 'number' && Number.isInteger(id));
  const idText = idRange && isId ? text.slice(idRange.start, idRange.end) : 'null';
  const bad = (reason: string): Malformed => malformed(INVALID_REQUEST, `invalid request: ${reason}`, idText);
  if (lookalike !== undefined) return bad(lookalike);
  if (jsonrpc !== '2.0') return bad('member "jsonrpc" must be "2.0"');
  if (idRange && !isId) return bad('member "id" must be a string or an integer');
  if (method === undefined) {
    if (idRange && ('result' in value || 'error' in value)) return { kind: 'response', text, idText, idRange };
    return bad('member "method" is missing');
  }
  if (typeof method !== 'string') return bad('member "method" must be a string');
  // Parsers written in C end a string there: an upstream would see another method than the policy.
  if (method.includes('\0')) return bad('member "method" must not contain U+0000');
  if (!isJsonObject(params)) return bad('member "params" must be an object');
  const retained =
    paramsRange && paramsRange.end - paramsRange.start > LARGE_CHARACTERS
      ? retainedParams(text, params, paramsRange.start)
      : params;
  if (!idRange) return { kind: 'notification', text, method, params: retained };
  const problem = paramsRange && problemOfParams(text, paramsRange.start, CORE.test(method));
  if (problem !== undefined) return bad(`${problem} in "params"`);
  return { kind: 'request', text, idText, idRange, method, params: retained, paramsRange };
}

/** Params whose large values are parsed again on demand: a message is retained while it is served. */
function retainedParams(text: string, params: JsonObject, at: number): JsonObject {
  const retained: JsonObject = {};
  for (const { key, start, end } of members(text, at)) {
    const value = params[key];
    const isTree = typeof value === 'object' && value !== null && end - start > LARGE_CHARACTERS;
    const descriptor = isTree ? { get: reparsed(value, () => parseJson(text.slice(start, end))) } : { value };
    Object.defineProperty(retained, key, { ...descriptor, enumerable: true, configurable: true });
  }
  return retained;
}

/** Returns the value, parsing it again after it was garbage-collected. */
function reparsed(value: object, parse: () => unknown): () => unknown {
  let known = new WeakRef(value);
  return () => {
    const current = known.deref();
    if (current) return current;
    const parsed = parse();
    if (typeof parsed === 'object' && parsed !== null) known = new WeakRef(parsed);
    return parsed;
  };
}

/** Number of keys up to which a linear search is faster than a set. */
const MAX_LINEAR = 16;

/**
 * Members with a meaning. Some parsers ignore case in names: a policy that sees `name` must not be bypassed with `Name`.
 */
const ENVELOPE: ReadonlySet<string> = new Set(['jsonrpc', 'id', 'method', 'params', 'result', 'error']);
const PARAMS: ReadonlySet<string> = new Set(['name', 'arguments', 'uri', '_meta']);
/** Names that cannot be lookalikes. */
const PLAIN = /^[a-z_]*$/;
/** Methods with these params; others are defined by their vendors. */
const CORE = /^(?:tools|prompts|resources|completion)\//;

function lookalikeOf(key: string, known: ReadonlySet<string>): string | undefined {
  // Parsers written in C end a name at its first U+0000.
  const [prefix = ''] = key.split('\0');
  // Both conversions, because some letters, such as the long s, map to an ASCII letter only in upper case.
  const folded = prefix.toUpperCase().toLowerCase();
  return known.has(folded) ? `member ${JSON.stringify(key)} must be written ${JSON.stringify(folded)}` : undefined;
}

/** Finds a duplicate key, or one that an upstream may take for another. */
function problemOfParams(text: string, start: number, core: boolean): string | undefined {
  const few: string[] = [];
  let many: Set<string> | undefined;
  for (const { key } of members(text, start)) {
    if (many ? many.has(key) : few.includes(key)) return `duplicate member ${JSON.stringify(key)}`;
    const lookalike = core && !PLAIN.test(key) ? lookalikeOf(key, PARAMS) : undefined;
    if (lookalike !== undefined) return lookalike;
    if (many) many.add(key);
    else if (few.push(key) === MAX_LINEAR) many = new Set(few);
  }
  return undefined;
}

function malformed(code: number, message: string, idText = 'null'): Malformed {
  return { kind: 'malformed', code, message, idText };
}

/**
 * The response to a server request that cannot be sent to a client: an empty result for `ping`, else -32601. `text`: the
 * request, whose exact id is repeated.
 */
export function rejectServerRequest(text: string, method: unknown): string {
  const response =
    method === 'ping'
      ? '"result":{}'
      : `"error":{"code":${METHOD_NOT_FOUND},"message":"the client does not accept server requests on this connection"}`;
  return `{"jsonrpc":"2.0","id":${memberText(text, 'id')},${response}}`;
}

/** Name and version of a client or server (MCP `Implementation`). */
export interface Implementation {
  readonly name: string;
  readonly title: string;
  readonly version: string;
}

/** Serializes an own result, with its type in the modern era (2026-07-28, "Result Responses"). */
export function resultText(era: Era, result: JsonObject): string {
  return JSON.stringify(era === 'modern' ? { ...result, resultType: 'complete' } : result);
}

/** Replaces the id of a response; `idText` is JSON text. */
export function withId(text: string, idText: string): string {
  for (const { key, start, end } of members(text))
    if (key === 'id') return applyEdits(text, [{ start, end, text: idText }]);
  // An error without an id.
  return text.replace('{', () => `{"id":${idText},`);
}

/** JSON text of a member of `params`. */
export function paramText(text: string, name: string): string | undefined {
  return memberText(memberText(text, 'params') ?? '', name);
}

/** JSON text of the progress token, if the request has one. */
export function progressTokenText(text: string): string | undefined {
  return memberText(paramText(text, '_meta') ?? '', 'progressToken');
}

/** Replaces the value of a member of `params`, if it exists. */
export function withParam(text: string, name: string, replacement: string): string {
  const edits: Edit[] = [];
  for (const { key, start } of members(text)) {
    if (key !== 'params') continue;
    for (const param of members(text, start)) {
      if (param.key === name) edits.push({ start: param.start, end: param.end, text: replacement });
    }
  }
  return applyEdits(text, edits);
}

/**
 * The parts of a request that are needed until its response: id, method, progress token and log level. A copy, which does
 * not retain the text and params of the request.
 */
export function outlineOf(message: RequestMessage): RequestMessage {
  const { idText, method } = message;
  const token = progressTokenText(message.text);
  const level = requestedLevel(message);
  const meta = [
    ...(token === undefined ? [] : [`"progressToken":${token}`]),
    ...(level === undefined ? [] : [`"${META_LOG_LEVEL}":"${level}"`]),
  ].join(',');
  const opening = '{"jsonrpc":"2.0","id":';
  const beforeParams = `${opening}${idText},"method":${JSON.stringify(method)},"params":`;
  const text = Buffer.from(`${beforeParams}{"_meta":{${meta}}}}`).toString();
  const idRange = { start: opening.length, end: opening.length + idText.length };
  return {
    kind: 'request',
    text,
    idText: text.slice(idRange.start, idRange.end),
    idRange,
    method,
    params: JSON.parse(text).params,
    paramsRange: { start: beforeParams.length, end: text.length - 1 },
  };
}

/** The least log level of a modern request; undefined when it wants no log messages (2026-07-28, "Logging"). */
export function requestedLevel({ params }: RequestMessage): string | undefined {
  const meta = params._meta;
  const level = isJsonObject(meta) ? meta[META_LOG_LEVEL] : undefined;
  return isLogLevel(level) ? level : undefined;
}

import { isUtf8 } from 'node:buffer';
import { applyEdits, type Edit } from '@sluice/protocol/json/edit';
import { isJsonObject, type JsonObject, parseJson } from '@sluice/protocol/json/parse';
import { elements, members, memberText } from '@sluice/protocol/json/scan';
import { requestedLevel } from './capabilities.ts';
import { type Era, INVALID_REQUEST, META_LOG_LEVEL, METHOD_NOT_FOUND, PARSE_ERROR } from './constants.ts';

/** A JSON-RPC batch: several messages in one body, which only sessions of 2025-03-26 may send (mcp 6). */
export interface Batch {
  readonly kind: 'batch';
  /** The exact text of each element. What stands in it is judged when its turn comes. */
  readonly messages: readonly string[];
  /** True when an element is, or was meant to be, a request: then there are responses to send. */
  readonly asks: boolean;
}

/** All of them are under way at the same time. */
const MAX_MESSAGES = 100;

/** Cuts a batch into its messages; `value` is the parsed `text`. */
export function parseBatch(text: string, value: readonly unknown[]): Batch | Malformed {
  if (value.length === 0) return malformedBatch('invalid request: an empty batch');
  if (value.length > MAX_MESSAGES) {
    return malformedBatch(`invalid request: ${value.length} messages in a batch, at most ${MAX_MESSAGES} are accepted`);
  }
  const messages: string[] = [];
  for (const { start, end } of elements(text)) messages.push(text.slice(start, end));
  return { kind: 'batch', messages, asks: value.some(asks) };
}

function asks(element: unknown): boolean {
  return isJsonObject(element) && typeof element.method === 'string' && 'id' in element;
}

function malformedBatch(message: string): Malformed {
  return { kind: 'malformed', code: INVALID_REQUEST, message, idText: 'null' };
}

/** Where a value stands in a message's text; `end` is exclusive. */
export interface Range {
  readonly start: number;
  readonly end: number;
}

/** A JSON-RPC request: parsed for policy, and kept as text for the relay. */
export interface RequestMessage {
  readonly kind: 'request';
  readonly text: string;
  /** The id exactly as the client spelled it; answers carry it so. */
  readonly idText: string;
  readonly idRange: Range;
  readonly method: string;
  readonly params: JsonObject;
  /** Undefined when the request has no params. */
  readonly paramsRange: Range | undefined;
}

/** A JSON-RPC notification: acknowledged with 202, never answered. */
export interface NotificationMessage {
  readonly kind: 'notification';
  readonly text: string;
  readonly method: string;
  readonly params: JsonObject;
}

/** An answer to a request that the gateway sent to a legacy client. */
export interface ResponseMessage {
  readonly kind: 'response';
  readonly text: string;
  readonly idText: string;
  readonly idRange: Range;
}

/** What a body that is a JSON-RPC message can be. */
export type Message = RequestMessage | NotificationMessage | ResponseMessage;

/** Why a body is no message: the JSON-RPC error, and the id to answer with when there was one. */
export interface Malformed {
  readonly kind: 'malformed';
  readonly code: number;
  readonly message: string;
  readonly idText: string;
}

const NO_PARAMS: JsonObject = {};

/** Characters of a value from which on it is kept as text alone: parsed, it may take twenty times as much memory. */
const LARGE = 64 * 1024;

/** Parses a body once: as one JSON-RPC message, as a batch of them, or as what is wrong with it (mcp 6). */
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
  if (!isJsonObject(value)) return malformed(INVALID_REQUEST, 'invalid request: a message is a JSON object');
  return parseEnvelope(text, value);
}

function parseEnvelope(text: string, value: JsonObject): Message | Malformed {
  let idRange: Range | undefined;
  let paramsRange: Range | undefined;
  let methods = 0;
  let lookalike: string | undefined;
  for (const { key, start, end } of members(text)) {
    if (key === 'id') {
      // Of two members of one name we would judge one and the upstream might obey the other.
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
  const idText = idRange && isId(id) ? text.slice(idRange.start, idRange.end) : 'null';
  const bad = (reason: string): Malformed => malformed(INVALID_REQUEST, `invalid request: ${reason}`, idText);
  if (lookalike !== undefined) return bad(lookalike);
  if (jsonrpc !== '2.0') return bad('member "jsonrpc" must be "2.0"');
  if (idRange && !isId(id)) return bad('member "id" must be a string or an integer');
  if (method === undefined) {
    if (idRange && ('result' in value || 'error' in value)) return { kind: 'response', text, idText, idRange };
    return bad('member "method" is missing');
  }
  if (typeof method !== 'string') return bad('member "method" must be a string');
  // Readers written in C end it there: what is judged as one method must not be carried out as another.
  if (method.includes('\0')) return bad('member "method" must not contain U+0000');
  if (!isJsonObject(params)) return bad('member "params" must be an object');
  const kept = keptParams(text, params, paramsRange);
  if (!idRange) return { kind: 'notification', text, method, params: kept };
  const problem = paramsRange && problemOfParams(text, paramsRange.start, CORE.test(method));
  if (problem !== undefined) return bad(`${problem} in "params"`);
  return { kind: 'request', text, idText, idRange, method, params: kept, paramsRange };
}

/** Params with large values parse those again when they are asked for later: a message is kept while it is served. */
function keptParams(text: string, params: JsonObject, range: Range | undefined): JsonObject {
  if (!range || range.end - range.start <= LARGE) return params;
  const kept: JsonObject = {};
  for (const { key, start, end } of members(text, range.start)) {
    const value = params[key];
    const isTree = typeof value === 'object' && value !== null && end - start > LARGE;
    const how = isTree ? { get: reparsed(value, () => parseJson(text.slice(start, end))) } : { value };
    Object.defineProperty(kept, key, { ...how, enumerable: true, configurable: true });
  }
  return kept;
}

/** The value, or once memory was needed for something else what is parsed in its place. */
function reparsed(value: object, parse: () => unknown): () => unknown {
  let known = new WeakRef(value);
  return () => {
    const there = known.deref();
    if (there) return there;
    const again = parse();
    if (typeof again === 'object' && again !== null) known = new WeakRef(again);
    return again;
  };
}

function isId(id: unknown): boolean {
  return typeof id === 'string' || (typeof id === 'number' && Number.isInteger(id));
}

/** Params have a handful of members: so few are searched faster than they are hashed. */
const FEW = 16;

/**
 * Members that decide what a message asks for. Some readers take names for equal whose letters differ in case alone: what
 * we judge by `name` must not be carried out by `Name`.
 */
const ENVELOPE: ReadonlySet<string> = new Set(['jsonrpc', 'id', 'method', 'params', 'result', 'error']);
const PARAMS: ReadonlySet<string> = new Set(['name', 'arguments', 'uri', '_meta']);
/** Names that are no lookalikes of these. */
const PLAIN = /^[a-z_]*$/;
/** Methods whose params these are; those of others are their vendors' matter. */
const CORE = /^(?:tools|prompts|resources|completion)\//;

function lookalikeOf(key: string, known: ReadonlySet<string>): string | undefined {
  // Readers written in C end a name at its first U+0000.
  const [read = ''] = key.split('\0');
  // Both ways, because some letters have no small form of their own, such as the long s.
  const folded = read.toUpperCase().toLowerCase();
  return known.has(folded) ? `member ${JSON.stringify(key)} is to be spelled ${JSON.stringify(folded)}` : undefined;
}

/** A key that params carry twice, or one that an upstream may take for another. */
function problemOfParams(text: string, start: number, core: boolean): string | undefined {
  const few: string[] = [];
  let many: Set<string> | undefined;
  for (const { key } of members(text, start)) {
    if (many ? many.has(key) : few.includes(key)) return `duplicate member ${JSON.stringify(key)}`;
    const lookalike = core && !PLAIN.test(key) ? lookalikeOf(key, PARAMS) : undefined;
    if (lookalike !== undefined) return lookalike;
    if (many) many.add(key);
    else if (few.push(key) === FEW) many = new Set(few);
  }
  return undefined;
}

function malformed(code: number, message: string, idText = 'null'): Malformed {
  return { kind: 'malformed', code, message, idText };
}

/**
 * The answer to a server's request that no client can be asked: `ping` is answered for it, everything else is -32601.
 * `text` is the request, `method` its method; the answer has its id as that was spelled.
 */
export function refusalOf(text: string, method: unknown): string {
  const answer =
    method === 'ping'
      ? '"result":{}'
      : `"error":{"code":${METHOD_NOT_FOUND},"message":"the client cannot be asked on this connection"}`;
  return `{"jsonrpc":"2.0","id":${memberText(text, 'id')},${answer}}`;
}

/** JSON text of a result that is made here: the modern era asks for its type (2026-07-28, "Result Responses"). */
export function resultText(era: Era, result: JsonObject): string {
  return JSON.stringify(era === 'modern' ? { ...result, resultType: 'complete' } : result);
}

/** The response's text with this id, given as JSON text, in place of its own. */
export function withId(text: string, idText: string): string {
  for (const { key, start, end } of members(text))
    if (key === 'id') return applyEdits(text, [{ start, end, text: idText }]);
  // An error without an id: it gets one.
  return text.replace('{', () => `{"id":${idText},`);
}

/** JSON text of a member of a message's params. */
export function paramText(text: string, name: string): string | undefined {
  return memberText(memberText(text, 'params') ?? '', name);
}

/** JSON text of the token that a request wants its progress reported under; undefined when it wants none. */
export function progressTokenText(text: string): string | undefined {
  return memberText(paramText(text, '_meta') ?? '', 'progressToken');
}

/** The message with another value for a member of its params; as it is when there is no such member. */
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
 * Of a request what is needed while its answer is waited for, and no more: id, method, progress token and log level. A
 * copy: the request's text and params are not kept with it.
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

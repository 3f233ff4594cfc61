import { isUtf8 } from 'node:buffer';
import { ChunkBuffer } from '../chunk-buffer.ts';
import { isJsonObject, type JsonObject, MAX_PARSED_VALUES, parseJson, tryParseJson } from '../json/parse.ts';
import { MAX_TOKEN_BYTES } from '../json/scanner.ts';
import { applyEdits, type Edit, memberText, stringAt, stringValue } from '../json/text.ts';
import { quoteText } from '../text.ts';
import { isLogLevel } from './capabilities.ts';
import {
  type Era,
  INVALID_PARAMS,
  INVALID_REQUEST,
  META_CLIENT_CAPABILITIES,
  META_LOG_LEVEL,
  PARSE_ERROR,
} from './constants.ts';
import { type Envelope, type ScannedMember, scanEnvelope, scanText, toTextPositions } from './envelope.ts';
import { ENVELOPE_MEMBERS, problemOfParams, problemOfReference, similarMember } from './member-names.ts';
import { KNOWN_METHODS, sharedMethodName } from './methods.ts';

/** Bounds of a client's message, checked before a value is parsed. */
export interface MessageLimits {
  /** Deepest nesting of arrays and objects. */
  readonly depth: number;
  /**
   * Most members of an object that the service reads: the message, its params, their `_meta` and `arguments`; and most values in
   * each member that is parsed, which are all but those of `arguments` of `tools/call` and of methods of vendors.
   */
  readonly members: number;
  /** Largest declaration of client capabilities, in bytes of JSON. */
  readonly capabilitiesBytes: number;
}

/** Defaults of the settings with these bounds. */
export const MESSAGE_LIMITS: MessageLimits = { depth: 128, members: 10_000, capabilitiesBytes: 64 * 1024 };

/** A JSON-RPC batch: several messages in one body, allowed in sessions of 2025-03-26 only. */
export interface Batch {
  readonly kind: 'batch';
  /** The exact text of each element, not validated yet. */
  readonly messages: readonly string[];
  /** True when there are responses to send: an element is a request, possibly an invalid one. Scans the messages. */
  readonly hasRequests: boolean;
}

/** All messages of a batch are in flight at the same time. */
const MAX_MESSAGES = 100;

/** Splits a batch into its messages. */
function parseBatch(text: SourceText, elements: readonly ScannedMember[]): Batch | Malformed {
  if (elements.length === 0) return malformed(INVALID_REQUEST, 'invalid request: empty batch');
  if (elements.length > MAX_MESSAGES) {
    const message = `invalid request: batch of ${elements.length} messages; at most ${MAX_MESSAGES} are allowed`;
    return malformed(INVALID_REQUEST, message);
  }
  const messages = elements.map((element) => slice(text, element));
  return {
    kind: 'batch',
    messages,
    get hasRequests() {
      return messages.some(isRequest);
    },
  };
}

function isRequest(text: string): boolean {
  if (text.length > LARGE_CHARACTERS) {
    const envelope = scanEnvelope([Buffer.from(text)], MESSAGE_LIMITS.members);
    const found = typeof envelope === 'number' ? [] : (envelope.root.members ?? []);
    return (
      found.some(({ key, kind }) => key === 'method' && kind === 'string') && found.some(({ key }) => key === 'id')
    );
  }
  return memberText(text, 'method')?.startsWith('"') === true && memberText(text, 'id') !== undefined;
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
  /** A large message in ASCII: positions in its text are offsets. Its `text` is decoded at each access. */
  readonly bytes?: ChunkBuffer;
  /** True if the text is known to be ASCII. */
  readonly isAscii?: boolean;
  /** Exact text of the id, repeated in the response. */
  readonly idText: string;
  readonly idRange: Range;
  readonly method: string;
  readonly params: JsonObject;
  /** Undefined when the request has no params. */
  readonly paramsRange: Range | undefined;
  /**
   * Positions of the members of `params`, and in them of the members of `_meta` and `arguments`. No key occurs twice.
   */
  readonly paramMembers: readonly ScannedMember[];
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

/** Maximum length of a key in an error. */
const MAX_KEY_CHARACTERS = 100;

/** Length in characters above which a value is retained as text: parsed, it may need twenty times as much memory. */
const LARGE_CHARACTERS = 16 * 1024;

/** Text of a message; a large one in ASCII is not decoded as a whole. */
type SourceText = string | ChunkBuffer;

/** A body, and what is known of it. */
interface Source {
  readonly text: SourceText;
  /** Bytes of a text that is not known to be ASCII: positions in it may differ from theirs. */
  readonly bytes?: Buffer | undefined;
  /** Value of the whole text, if it is parsed. */
  readonly value?: JsonObject | undefined;
}

function slice(text: SourceText, { start, end }: Range): string {
  return typeof text === 'string' ? text.slice(start, end) : text.toAscii(start, end);
}

function textOf(text: SourceText): string {
  return typeof text === 'string' ? text : text.toAscii();
}

/** Parses a body: a JSON-RPC message, a batch, or the error. */
export function parseMessage(body: Buffer | ChunkBuffer, limits = MESSAGE_LIMITS): Message | Batch | Malformed {
  // A value takes at least two bytes.
  return body.length > Math.min(LARGE_CHARACTERS, 2 * limits.members)
    ? parseLarge(body instanceof ChunkBuffer ? body : ChunkBuffer.of(body), limits)
    : parseSmall(body instanceof ChunkBuffer ? body.concat() : body, limits);
}

function parseSmall(body: Buffer, limits: MessageLimits): Message | Batch | Malformed {
  const text = body.toString('utf8');
  // Text without a replacement character and with one character per byte is ASCII.
  const isAscii = text.length === body.length && !text.includes('\ufffd');
  if (!isAscii && !isUtf8(body)) return malformed(PARSE_ERROR, 'parse error: the body is not UTF-8');
  const value = tryParseJson(text);
  const scanned = isJsonObject(value) ? scanText(text, limits.members) : undefined;
  const bytes = isAscii ? undefined : body;
  if (isJsonObject(value) && scanned) return parseRoot({ text, bytes, value }, scanned, limits);
  const envelope = scanEnvelope([body], limits.members, text.length === body.length ? text : undefined);
  return parseScanned({ text, bytes }, envelope, limits);
}

function parseLarge(body: ChunkBuffer, limits: MessageLimits): Message | Batch | Malformed {
  const envelope = scanEnvelope(body.chunks, limits.members);
  if (typeof envelope !== 'number' && envelope.isAscii) return parseScanned({ text: body }, envelope, limits);
  const bytes = body.concat();
  if (!isUtf8(bytes)) return malformed(PARSE_ERROR, 'parse error: the body is not UTF-8');
  return parseScanned({ text: bytes.toString('utf8'), bytes }, envelope, limits);
}

function parseScanned(source: Source, envelope: Envelope | number, limits: MessageLimits): Message | Batch | Malformed {
  if (typeof envelope === 'number') return malformed(PARSE_ERROR, `parse error: invalid JSON at byte ${envelope}`);
  const { root } = envelope;
  if (source.bytes && !envelope.isAscii) toTextPositions(root, source.bytes);
  if (root.kind === 'array') return parseBatch(source.text, root.members ?? []);
  if (root.kind !== 'object') return malformed(INVALID_REQUEST, 'invalid request: expected a JSON object');
  return parseRoot(source, envelope, limits);
}

function parseRoot(source: Source, envelope: Envelope, limits: MessageLimits): Message | Malformed {
  const { text, bytes, value: parsed } = source;
  let id: ScannedMember | undefined;
  let method: ScannedMember | undefined;
  let params: ScannedMember | undefined;
  let version: ScannedMember | undefined;
  let isResponse = false;
  let problem: string | undefined;
  for (const member of envelope.root.members ?? []) {
    switch (member.key) {
      case 'id':
        // The policy would see one of two equal members, and the upstream might use the other.
        if (id) return malformed(INVALID_REQUEST, 'invalid request: duplicate member "id"');
        id = member;
        break;
      case 'method':
        if (method) return malformed(INVALID_REQUEST, 'invalid request: duplicate member "method"');
        method = member;
        break;
      case 'params':
        if (params) return malformed(INVALID_REQUEST, 'invalid request: duplicate member "params"');
        params = member;
        break;
      case 'jsonrpc':
        if (version) return malformed(INVALID_REQUEST, 'invalid request: duplicate member "jsonrpc"');
        version = member;
        break;
      case 'result':
      case 'error':
        isResponse = true;
        break;
      default:
        problem ??= similarMember(member.key, ENVELOPE_MEMBERS);
    }
  }
  const validId = id && validIdText(text, id);
  const idText = validId ?? 'null';
  const invalid = (reason: string): Malformed => malformed(INVALID_REQUEST, `invalid request: ${reason}`, idText);
  const exceeded = exceededLimit(envelope, limits);
  if (exceeded !== undefined) return malformed(INVALID_PARAMS, `invalid request: ${exceeded}`, idText);
  if (problem !== undefined) return invalid(problem);
  // V8 shares short texts that it parses: they are compared, and found in maps, faster than parts of the message.
  if (!version || (parsed ? parsed.jsonrpc : valueOfString(text, version)) !== '2.0')
    return invalid('member "jsonrpc" must be "2.0"');
  if (id && validId === undefined) return invalid('member "id" must be a string or an integer');
  const idRange = id && { start: id.start, end: id.end };
  if (!method) {
    if (idRange && isResponse) return { kind: 'response', text: textOf(text), idText, idRange };
    return invalid('member "method" is missing');
  }
  const given = parsed ? parsed.method : valueOfString(text, method);
  if (typeof given !== 'string') return invalid('member "method" must be a string');
  const name = sharedMethodName(given);
  // Parsers written in C end a string there: an upstream would see another method than the policy.
  if (name.includes('\0')) return invalid('member "method" must not contain U+0000');
  if (params && params.kind !== 'object') return invalid('member "params" must be an object');
  const paramMembers = params?.members ?? NO_MEMBERS;
  const declared = declaredCapabilities(name, paramMembers);
  if (declared && Buffer.byteLength(slice(text, declared)) > limits.capabilitiesBytes) {
    const limit = `${limits.capabilitiesBytes} bytes (SERVICE_MAX_CAPABILITIES_BYTES)`;
    return malformed(INVALID_PARAMS, `invalid request: the client capabilities exceed the limit of ${limit}`, idText);
  }
  const crowded = envelope.crowded && crowdedMember(name, paramMembers, envelope.crowded);
  if (crowded !== undefined) {
    const isSetting = limits.members <= MAX_PARSED_VALUES;
    const limit = isSetting ? `${limits.members} members (SERVICE_MAX_JSON_MEMBERS)` : `${MAX_PARSED_VALUES} members`;
    const message = `invalid request: ${quoteText(crowded, MAX_KEY_CHARACTERS)} exceeds the limit of ${limit}`;
    return malformed(INVALID_PARAMS, message, idText);
  }
  const value = params ? paramsOf(text, params, parsed) : NO_PARAMS;
  if (!idRange) return { kind: 'notification', text: textOf(text), method: name, params: value };
  problem = problemOfParams(name, paramMembers);
  const ref = name === 'completion/complete' ? paramMembers.find(({ key }) => key === 'ref') : undefined;
  if (ref) problem ??= problemOfReference(slice(text, ref));
  if (problem !== undefined) return invalid(problem);
  const paramsRange = params && { start: params.start, end: params.end };
  // Written out twice: spreading an object costs more than the rest of this function.
  if (typeof text === 'string') {
    const isAscii = bytes === undefined;
    return { kind: 'request', text, isAscii, idText, idRange, method: name, params: value, paramsRange, paramMembers };
  }
  return {
    kind: 'request',
    bytes: text,
    get text() {
      return text.toAscii();
    },
    idText,
    idRange,
    method: name,
    params: value,
    paramsRange,
    paramMembers,
  };
}

const NO_MEMBERS: readonly ScannedMember[] = [];

function exceededLimit(
  { root, depth, oversized, hasLongKey }: Envelope,
  { depth: maxDepth, members: maxMembers }: MessageLimits,
): string | undefined {
  if (depth > maxDepth) return `nesting of ${depth} levels exceeds the limit of ${maxDepth} (SERVICE_MAX_JSON_DEPTH)`;
  if (oversized !== undefined) {
    const where = oversized === root.key ? 'the message' : JSON.stringify(oversized);
    return `${where} exceeds the limit of ${maxMembers} members (SERVICE_MAX_JSON_MEMBERS)`;
  }
  return hasLongKey ? `a member name exceeds ${MAX_TOKEN_BYTES} bytes` : undefined;
}

/** Key of a member that is parsed and has too many values for that. */
function crowdedMember(
  method: string,
  params: readonly ScannedMember[],
  crowded: ReadonlySet<ScannedMember>,
): string | undefined {
  const isParsed = ({ key }: ScannedMember): boolean =>
    KNOWN_METHODS.has(method) && !(key === 'arguments' && method === 'tools/call');
  const isCrowded = (member: ScannedMember): boolean => crowded.has(member);
  return (params.find((member) => isCrowded(member) && isParsed(member)) ?? membersOf(params, '_meta').find(isCrowded))
    ?.key;
}

/** The declaration of client capabilities in a request: in `_meta`, or in the params of `initialize`. */
function declaredCapabilities(method: string, params: readonly ScannedMember[]): ScannedMember | undefined {
  const [owner, key] =
    method === 'initialize' ? [params, 'capabilities'] : [membersOf(params, '_meta'), META_CLIENT_CAPABILITIES];
  return owner.find((member) => member.key === key);
}

function valueOfString(text: SourceText, member: ScannedMember): string | undefined {
  if (member.kind !== 'string') return undefined;
  return typeof text === 'string' ? stringAt(text, member.start, member.end) : stringValue(slice(text, member));
}

/** The params, parsed at once if they are small. */
function paramsOf(text: SourceText, params: ScannedMember, parsed: JsonObject | undefined): JsonObject {
  if (params.end - params.start > LARGE_CHARACTERS) return lazyObject(text, params.members ?? []);
  const value = parsed ? parsed.params : parseJson(slice(text, params));
  return isJsonObject(value) ? value : NO_PARAMS;
}

/** An object whose arrays and objects are parsed on demand: a message is retained while it is served. */
function lazyObject(text: SourceText, scanned: readonly ScannedMember[]): JsonObject {
  const object: JsonObject = {};
  for (const member of scanned) {
    const { key, kind, members: inner } = member;
    const parse = () => parseJson(slice(text, member));
    const isTree = kind === 'object' || kind === 'array';
    const value = isTree ? undefined : parse();
    const descriptor =
      key === '_meta' && inner ? { value: lazyObject(text, inner) } : isTree ? { get: weaklyCached(parse) } : { value };
    Object.defineProperty(object, key, { ...descriptor, enumerable: true, configurable: true });
  }
  return object;
}

/** Returns the parsed value, parsing it again after it was garbage-collected. */
function weaklyCached(parse: () => unknown): () => unknown {
  let cached: WeakRef<object> | undefined;
  return () => {
    const current = cached?.deref();
    if (current) return current;
    const parsed = parse();
    if (typeof parsed === 'object' && parsed !== null) cached = new WeakRef(parsed);
    return parsed;
  };
}

function validIdText(text: SourceText, id: ScannedMember): string | undefined {
  if (id.kind !== 'string' && id.kind !== 'number') return undefined;
  const idText = slice(text, id);
  return id.kind === 'string' || Number.isInteger(Number(idText)) ? idText : undefined;
}

function malformed(code: number, message: string, idText = 'null'): Malformed {
  return { kind: 'malformed', code, message, idText };
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

/** Positions of the members of the object with this key; empty if there is none. */
export function membersOf(scanned: readonly ScannedMember[], key: string): readonly ScannedMember[] {
  return scanned.find((member) => member.key === key)?.members ?? NO_MEMBERS;
}

/** Position of the progress token; undefined if the client requests no progress. */
export function progressTokenRange({ paramMembers }: RequestMessage): Range | undefined {
  return membersOf(paramMembers, '_meta').find(({ key }) => key === 'progressToken');
}

/** Like {@link progressTokenText}, of a parsed request. */
export function progressTokenOf(message: RequestMessage): string | undefined {
  const range = progressTokenRange(message);
  return range && slice(message.bytes ?? message.text, range);
}

/** The original was within the limits, or is the service's own. */
const UNLIMITED: MessageLimits = { depth: Infinity, members: Infinity, capabilitiesBytes: Infinity };

/** Returns a request with edits of its text. Throws if the result is no request. */
export function editRequest({ text }: RequestMessage, edits: readonly Edit[]): RequestMessage {
  return parseRequest(applyEdits(text, edits));
}

/** Parses a request that the service has built itself, without limits. Throws for other text. */
export function parseRequest(text: string): RequestMessage {
  const message = parseMessage(Buffer.from(text), UNLIMITED);
  if (message.kind !== 'request') throw new Error('the text is not a request');
  return message;
}

/**
 * The parts of a request that are needed until its response: id, method, progress token and log level. A copy, which
 * does not retain the text and params of the request.
 */
export function outlineOf(message: RequestMessage): RequestMessage {
  const { idText, method } = message;
  const token = progressTokenOf(message);
  const level = requestedLevel(message);
  const meta = [
    ...(token === undefined ? [] : [`"progressToken":${token}`]),
    ...(level === undefined ? [] : [`"${META_LOG_LEVEL}":"${level}"`]),
  ].join(',');
  return parseRequest(
    `{"jsonrpc":"2.0","id":${idText},"method":${JSON.stringify(method)},"params":{"_meta":{${meta}}}}`,
  );
}

/** The minimum log level of a modern request; undefined when it requests no log messages (2026-07-28, "Logging"). */
export function requestedLevel({ params }: RequestMessage): string | undefined {
  const meta = params._meta;
  const level = isJsonObject(meta) ? meta[META_LOG_LEVEL] : undefined;
  return isLogLevel(level) ? level : undefined;
}

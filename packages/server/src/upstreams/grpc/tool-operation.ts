import { randomUUID } from 'node:crypto';
import { isJsonObject, type JsonObject, type JsonValue } from '@sluice/protocol/json/parse';
import { members } from '@sluice/protocol/json/text';
import type { RequestMessage } from '@sluice/protocol/mcp/message';
import { paramText } from '@sluice/protocol/mcp/message-text';
import { comparableName } from '../../http/header-lines.ts';
import type { Entry } from '../../registry/entries.ts';
import type { UpstreamRequestInfo } from '../../telemetry/call-observer.ts';
import { AUTH_PREFIX } from '../../telemetry/tool-calls/event.ts';
import { CallError } from '../operation.ts';
import type { ToolInvokeRequest } from './generated/tool/ToolInvokeRequest.ts';

/** Converts a value for capability services: strings unchanged, other values as JSON, null to undefined. */
function asText(value: JsonValue | undefined): string | undefined {
  if (value === undefined || value === null) return undefined;
  // A lone surrogate, possible in JSON but not in UTF-8, would make the whole message unreadable.
  return typeof value === 'string' ? value.toWellFormed() : JSON.stringify(value);
}

/** Like {@link asText} for JSON text: values other than strings are returned unchanged, without parsing. */
export function jsonToText(json: string | undefined): string | undefined {
  if (json === undefined || json === 'null') return undefined;
  return json.startsWith('"') ? String(JSON.parse(json)).toWellFormed() : json;
}

/** An own member of the object, not an inherited one. */
function ownMember(object: JsonObject, member: string): JsonValue | undefined {
  return Object.hasOwn(object, member) ? object[member] : undefined;
}

/** A string member; empty if there is none. */
export function stringMember(object: JsonObject, member: string): string {
  const value = ownMember(object, member);
  return typeof value === 'string' ? value.toWellFormed() : '';
}

/** An object member; empty if there is none. */
export function objectMember(object: JsonObject, member: string): JsonObject {
  const value = ownMember(object, member);
  return isJsonObject(value) ? value : {};
}

/** Arguments with this prefix become headers of the request instead. */
const META_PREFIX = 'service_meta_';

/**
 * Limit on the arguments of a call, and on arguments and variables of code. A request has room for hundreds of thousands,
 * whose serialization would block the process for a second.
 */
export const MAX_ARGUMENTS = 4096;

/**
 * Values of arguments by name, as the caller's JSON text, since most are sent unchanged. Has no prototype, so that any name
 * is safe. Names do not reference the request text, since events retain some.
 */
export type ArgumentTexts = Readonly<Record<string, string>>;

/**
 * Arguments of a call; empty if there are none. Throws CallError INVALID_ARGUMENTS if they are not an object or too many.
 */
export function parseArguments({ text }: Pick<RequestMessage, 'text'>): ArgumentTexts {
  return parseMembers(paramText(text, 'arguments') ?? 'null', 'arguments');
}

/**
 * Members of an object in JSON text, none for null; `name` is for messages. Throws CallError INVALID_ARGUMENTS for other
 * values and for too many members.
 */
export function parseMembers(json: string, name: string): ArgumentTexts {
  if (!json.startsWith('{') && json !== 'null') {
    throw new CallError('INVALID_ARGUMENTS', `${name} must be an object`);
  }
  const args: Record<string, string> = Object.create(null);
  let count = 0;
  for (const { key, start, end } of members(json)) {
    if (++count > MAX_ARGUMENTS) throw tooManyMembersError(name);
    args[key] = json.slice(start, end);
  }
  return args;
}

export function tooManyMembersError(name: string): CallError {
  return new CallError('INVALID_ARGUMENTS', `${name} must have at most ${MAX_ARGUMENTS} members`);
}

/** Arguments with a value, as texts, in order. */
export function argumentEntries(args: ArgumentTexts): [string, string][] {
  const texts: [string, string][] = [];
  for (const name in args) {
    const text = jsonToText(args[name]);
    if (text !== undefined) texts.push([name.toWellFormed(), text]);
  }
  return texts;
}

/** Throws CallError INVALID_ARGUMENTS unless all arguments required by a schema are present and not null. */
export function requireArguments(required: JsonValue | undefined, args: ArgumentTexts): void {
  if (!Array.isArray(required)) return;
  const missing = required.filter((name) => typeof name === 'string' && (args[name] ?? 'null') === 'null');
  if (missing.length > 0) {
    throw new CallError('INVALID_ARGUMENTS', `Missing required parameter(s): ${missing.join(', ')}`);
  }
}

/** True for arguments that become headers. */
export function isHeaderArgument(name: string): boolean {
  return name.startsWith(META_PREFIX) || name.startsWith(AUTH_PREFIX);
}

/** Argument that becomes the body of the request if the schema of the tool has it. */
const BODY = 'service_body';

/** A complete request. */
export interface BuiltToolRequest extends ToolInvokeRequest {
  readonly headers: { [name: string]: string };
}

/**
 * Builds the request to invoke a tool, without headers whose names ({@link comparableName}) are `dropped`. Throws CallError
 * INVALID_ARGUMENTS if a required parameter is missing, TOOL_DEFINITION_ERROR if a header defined by the tool has no value.
 */
export function toolRequest(tool: Entry, args: ArgumentTexts, dropped?: ReadonlySet<string>): BuiltToolRequest {
  const schema = objectMember(tool.definition, 'inputSchema');
  const properties = objectMember(schema, 'properties');
  requireArguments(schema.required, args);
  const hasBody = Object.hasOwn(properties, BODY);
  const texts = argumentEntries(args);
  const rest = texts.filter(([name]) => !isHeaderArgument(name) && !(hasBody && name === BODY));
  const headers = [...buildHeaders(tool.name, properties, args, texts)];
  return {
    uri: stringMember(tool.members, 'uri'),
    body: (hasBody && jsonToText(args[BODY])) || '',
    arguments: Object.fromEntries(rest),
    configurationURI: stringMember(tool.members, 'configurationURI'),
    secretsURI: stringMember(tool.members, 'secretsURI'),
    headers: Object.fromEntries(headers.filter(([name]) => !dropped?.has(comparableName(name)))),
  };
}

/** In order of precedence, lowest first: headers of the caller, of the tool, and for authentication. */
function buildHeaders(
  tool: string,
  properties: JsonObject,
  args: ArgumentTexts,
  texts: readonly (readonly [string, string])[],
): Map<string, string> {
  const headers = new Map<string, string>();
  const prefixed = (prefix: string): void => {
    for (const [name, text] of texts) {
      if (name.startsWith(prefix)) headers.set(name.slice(prefix.length), text);
    }
  };
  prefixed(META_PREFIX);
  for (const [name, property] of Object.entries(properties)) {
    if (!isJsonObject(property) || property.target !== 'header' || property.scope !== 'service') continue;
    const text = jsonToText(args[name]) ?? asText(property.value);
    if (text === undefined) {
      throw new CallError(
        'TOOL_DEFINITION_ERROR',
        `tool ${tool}: header ${name} has no value: set the argument, or the "value" of the property`,
      );
    }
    headers.set(name.toWellFormed(), text);
  }
  prefixed(AUTH_PREFIX);
  headers.delete('');
  return headers;
}

/** Description of a request to a service for metrics and traces. */
export function describeUpstreamRequest(method: string, { kind, name }: Entry, server: string): UpstreamRequestInfo {
  const subject = kind === 'tool' ? { kind, name } : undefined;
  return { method, protocol: 'grpc', subject, server };
}

/** Id of a call for its service: the client's `x-request-id`, else a new one. */
export function serviceRequestId(clientId: string | undefined): string {
  // Metadata of gRPC takes printable ASCII only.
  return clientId !== undefined && /^[\x20-\x7e]+$/.test(clientId) ? clientId : randomUUID();
}

/** Limit on the texts of a response, which is buffered. */
const MAX_CONTENT_BYTES = 64 * 1024 * 1024;

/** Overhead counted per text, also an empty one, for lists and the block in the result. */
export const BLOCK_BYTES = 64;

/** Bytes that the escape of an ASCII character adds: one for a short escape, five for another control character. */
const ESCAPE_BYTES = Uint8Array.from(
  { length: 0x80 },
  (_, code) => JSON.stringify(String.fromCharCode(code)).length - 3,
);

/**
 * Size of the texts of a service in the JSON of a response: up to six times their length, and unbounded for empty texts
 * without the overhead. Counted before anything is built.
 */
export class ContentSize {
  readonly #maxBytes: number;
  readonly #blockBytes: number;
  #bytes = 0;

  constructor(maxBytes = MAX_CONTENT_BYTES, blockBytes = BLOCK_BYTES) {
    this.#maxBytes = maxBytes;
    this.#blockBytes = blockBytes;
  }

  /** Adds a text; returns false over the limit. */
  add(text: string): boolean {
    this.#bytes += this.#blockBytes + jsonBytes(text);
    return this.#bytes <= this.#maxBytes;
  }

  /** Description of the limit for messages. */
  get excess(): string {
    return `more than ${this.#maxBytes} bytes of JSON, with ${this.#blockBytes} bytes counted per text`;
  }
}

/**
 * Returns the texts of a reply; throws CallError if they exceed the limit. `what` names the sender for messages;
 * `blockBytes` is the overhead of each text.
 */
export function checkContentSize(
  what: string,
  content: readonly string[],
  blockBytes = BLOCK_BYTES,
): readonly string[] {
  const size = new ContentSize(MAX_CONTENT_BYTES, blockBytes);
  for (const text of content) {
    if (!size.add(text)) throw new CallError('SERVICE_UNAVAILABLE', `${what} sent a reply of ${size.excess}`);
  }
  return content;
}

/** Bytes of UTF-8 of a text in a JSON string, without quotes. */
export function jsonBytes(text: string): number {
  let bytes = text.length;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code >= 0x80) bytes += code < 0x800 || (code >= 0xd800 && code <= 0xdfff) ? 1 : 2;
    else bytes += ESCAPE_BYTES[code] ?? 0;
  }
  return bytes;
}

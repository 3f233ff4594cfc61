import { randomUUID } from 'node:crypto';
import { isJsonObject, type JsonObject, type JsonValue } from '@sluice/protocol/json/parse';
import { members } from '@sluice/protocol/json/scan';
import type { Era } from '@sluice/protocol/mcp/constants';
import { paramText, type RequestMessage, resultText } from '@sluice/protocol/mcp/message';
import type { Entry } from '../../registry/entries.ts';
import type { UpstreamRequestInfo } from '../../telemetry/request-telemetry.ts';
import { AUTH_PREFIX } from '../../telemetry/tool-calls/report.ts';
import { type BridgedAnswer, ServiceError } from './call.ts';
import type { ToolInvokeRequest } from './generated/tool/ToolInvokeRequest.ts';

/** A value as capability services take it: text as it is, all else as JSON (decisions 4.10). Null has none. */
export function asText(value: JsonValue | undefined): string | undefined {
  if (value === undefined || value === null) return undefined;
  // Half a surrogate pair, which JSON can spell and UTF-8 cannot, would make the whole message unreadable.
  return typeof value === 'string' ? value.toWellFormed() : JSON.stringify(value);
}

/** The same of a value that is JSON text already: what is no text stays as it was spelled, and costs no parsing. */
export function textOfJson(json: string | undefined): string | undefined {
  if (json === undefined || json === 'null') return undefined;
  return json.startsWith('"') ? String(JSON.parse(json)).toWellFormed() : json;
}

/** A member of the object's own, and none that all objects have. */
function own(object: JsonObject, member: string): JsonValue | undefined {
  return Object.hasOwn(object, member) ? object[member] : undefined;
}

/** A member that is a text; empty where there is none. */
export function textIn(object: JsonObject, member: string): string {
  const value = own(object, member);
  return typeof value === 'string' ? value.toWellFormed() : '';
}

/** A member that is an object; an empty one where there is none. */
export function objectIn(object: JsonObject, member: string): JsonObject {
  const value = own(object, member);
  return isJsonObject(value) ? value : {};
}

/** Arguments of these names become headers of the request and are no arguments any more (specification, rules 1 and 2). */
export const META_PREFIX = 'service_meta_';

/**
 * Most that a call may have of arguments, and code of arguments and variables. A request has room for hundreds of
 * thousands, and to make a message of those would hold everybody up for a second.
 */
export const MOST_ARGUMENTS = 4096;

/**
 * Arguments by their names, each value as the JSON text that its caller wrote: most of them go to the service as they are.
 * Has no members but its own, whatever they are called. The names are texts of their own, as those of all objects are:
 * events keep some, and must not keep the request.
 */
export type GivenArguments = Readonly<Record<string, string>>;

/**
 * The arguments of a call; none where there are none. Throws ServiceError INVALID_ARGUMENTS when they are no object, or too
 * many (decisions 6).
 */
export function argumentsOf({ text }: Pick<RequestMessage, 'text'>): GivenArguments {
  return membersOf(paramText(text, 'arguments') ?? 'null', 'arguments');
}

/**
 * The members of an object that is JSON text, none of a null; `name` is what it is called. Throws ServiceError
 * INVALID_ARGUMENTS for other values, and when they are too many.
 */
export function membersOf(json: string, name: string): GivenArguments {
  if (!json.startsWith('{') && json !== 'null') {
    throw new ServiceError('INVALID_ARGUMENTS', `${name} must be an object`);
  }
  const given: Record<string, string> = Object.create(null);
  let count = 0;
  for (const { key, start, end } of members(json)) {
    if (++count > MOST_ARGUMENTS) throw tooMany(name);
    given[key] = json.slice(start, end);
  }
  return given;
}

/** What is thrown where there are more than {@link MOST_ARGUMENTS}. */
export function tooMany(name: string): ServiceError {
  return new ServiceError('INVALID_ARGUMENTS', `${name} must have at most ${MOST_ARGUMENTS} members`);
}

/** The arguments that have a value, as texts, in their order. */
export function textsOf(given: GivenArguments): [string, string][] {
  const texts: [string, string][] = [];
  for (const name in given) {
    const text = textOfJson(given[name]);
    if (text !== undefined) texts.push([name.toWellFormed(), text]);
  }
  return texts;
}

/** Throws ServiceError INVALID_ARGUMENTS unless all arguments were given that a schema requires; a null is none. */
export function requireAll(required: JsonValue | undefined, given: GivenArguments): void {
  if (!Array.isArray(required)) return;
  const missing = required.filter((name) => typeof name === 'string' && (given[name] ?? 'null') === 'null');
  if (missing.length > 0) {
    throw new ServiceError('INVALID_ARGUMENTS', `Missing required parameter(s): ${missing.join(', ')}`);
  }
}

/** True for arguments that become headers; what those that authenticate carry is secret. */
export function becomesHeader(name: string): boolean {
  return name.startsWith(META_PREFIX) || name.startsWith(AUTH_PREFIX);
}

/** The argument that becomes the request's body, for tools whose schema has it (decisions 4.10). */
const BODY = 'service_body';

/** A request that can be sent: its headers, which others look at, are there. */
export interface BuiltToolRequest extends ToolInvokeRequest {
  readonly headers: { [name: string]: string };
}

/**
 * The request that has a capability service carry out a tool (specification, "Request-building rules" 1 and 2; decisions
 * 4.10). Throws ServiceError INVALID_ARGUMENTS when a required parameter is missing, TOOL_DEFINITION_ERROR when a header
 * that the tool defines has no value.
 */
export function toolRequest(tool: Entry, given: GivenArguments): BuiltToolRequest {
  const schema = objectIn(tool.definition, 'inputSchema');
  const properties = objectIn(schema, 'properties');
  requireAll(schema.required, given);
  const hasBody = Object.hasOwn(properties, BODY);
  const texts = textsOf(given);
  const rest = texts.filter(([name]) => !becomesHeader(name) && !(hasBody && name === BODY));
  return {
    uri: textIn(tool.members, 'uri'),
    body: (hasBody && textOfJson(given[BODY])) || '',
    arguments: Object.fromEntries(rest),
    configurationURI: textIn(tool.members, 'configurationURI'),
    secretsURI: textIn(tool.members, 'secretsURI'),
    headers: Object.fromEntries(headersOf(tool.name, properties, given, texts)),
  };
}

/** Later ones win: what callers may say of their own, what the tool defines, and what authenticates. */
function headersOf(
  tool: string,
  properties: JsonObject,
  given: GivenArguments,
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
    const text = textOfJson(given[name]) ?? asText(property.value);
    if (text === undefined) {
      throw new ServiceError(
        'TOOL_DEFINITION_ERROR',
        `tool ${tool}: header ${name} has no value: give the argument, or the property a "value"`,
      );
    }
    headers.set(name.toWellFormed(), text);
  }
  prefixed(AUTH_PREFIX);
  headers.delete('');
  return headers;
}

/** What a tool's call is answered: a text for each content (specification, "Request-building rules" 5). */
export function toolResult(era: Era, content: readonly string[], isError: boolean): BridgedAnswer {
  const json = resultText(era, { content: content.map((text) => ({ type: 'text', text })), isError });
  return { kind: 'result', json };
}

/** What is asked of a service, for metrics and traces. */
export function asked({ path }: { readonly path: string }, { kind, name }: Entry, server: string): UpstreamRequestInfo {
  const subject = kind === 'tool' ? { kind, name } : undefined;
  return { method: path.slice(1), protocol: 'grpc', subject, server };
}

/** The id that a call carries to its service: `given`, the client's `x-request-id`, else a new one (decisions 4.10). */
export function serviceRequestId(given: string | undefined): string {
  // Metadata of gRPC takes printable ASCII only.
  return given !== undefined && /^[\x20-\x7e]+$/.test(given) ? given : randomUUID();
}

/** Most that the texts of an answer may take in it: it is held whole (decisions 8). */
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;

/** What a text counts besides itself, since each has a place in lists and a block in the result, an empty one too. */
export const BLOCK_BYTES = 64;

/** What is spelled with two characters; other controls take six. */
const SHORT = '"\\\b\t\n\f\r';

/**
 * What the texts that services send become in the JSON of an answer, which may be six times as much, and for texts without
 * a character without bounds. Counted before anything is made of them.
 */
export class AnswerSize {
  readonly #most: number;
  readonly #blockBytes: number;
  #bytes = 0;

  constructor(most = MAX_ANSWER_BYTES, blockBytes = BLOCK_BYTES) {
    this.#most = most;
    this.#blockBytes = blockBytes;
  }

  /** Counts a text; false when it is too much. */
  add(text: string): boolean {
    this.#bytes += this.#blockBytes + jsonBytes(text);
    return this.#bytes <= this.#most;
  }

  /** What is said where it is too much. */
  get excess(): string {
    return `more than ${this.#most} bytes of JSON, where each text counts for ${this.#blockBytes} more`;
  }
}

/**
 * The texts of a reply, when an answer can hold them; throws ServiceError otherwise. `what` names who sent them;
 * `blockBytes` is what each has beside it.
 */
export function boundedContent(what: string, content: readonly string[], blockBytes = BLOCK_BYTES): readonly string[] {
  const size = new AnswerSize(MAX_ANSWER_BYTES, blockBytes);
  for (const text of content) {
    if (!size.add(text))
      throw new ServiceError('SERVICE_UNAVAILABLE', `${what} sent a reply that makes ${size.excess}`);
  }
  return content;
}

/** The bytes of UTF-8 that a text takes between the quotes of a JSON string. */
export function jsonBytes(text: string): number {
  let bytes = text.length;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code >= 0x80) bytes += code < 0x800 || (code >= 0xd800 && code <= 0xdfff) ? 1 : 2;
    else if (code < 0x20 || code === 0x22 || code === 0x5c) bytes += SHORT.includes(text.charAt(at)) ? 1 : 5;
  }
  return bytes;
}

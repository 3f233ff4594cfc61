import type { IncomingHttpHeaders } from 'node:http';
import { isJsonObject, type JsonObject } from '../json/parse.ts';
import { elements, findMembers, memberText, removeAt, replaceAt } from '../json/text.ts';
import { acceptsServerRequest, isLogLevel } from './capabilities.ts';
import {
  type Era,
  HEADER_METHOD,
  HEADER_MISMATCH,
  HEADER_NAME,
  HEADER_NAME_PARAM,
  HEADER_PROTOCOL_VERSION,
  INTERNAL_ERROR,
  INVALID_PARAMS,
  LEGACY_VERSIONS,
  META_CLIENT_CAPABILITIES,
  META_CLIENT_INFO,
  META_LOG_LEVEL,
  META_PROTOCOL_VERSION,
  MISSING_CAPABILITY,
  MODERN_VERSIONS,
  NAME_PARAM,
  UNSUPPORTED_VERSION,
} from './constants.ts';
import type { NotificationMessage, RequestMessage } from './message.ts';
import { decodeHeaderValue } from './param-headers.ts';

/** The error for a message of no supported era; always HTTP 400. */
export interface RejectedMessage {
  readonly kind: 'rejected';
  readonly code: number;
  readonly message: string;
  readonly data?: unknown;
}

/** The era of a message, and the capabilities that a modern request declares; or the error. */
export type RequestEra =
  | { readonly kind: 'served'; readonly era: Era; readonly capabilities?: JsonObject }
  | RejectedMessage;

const LEGACY: RequestEra = { kind: 'served', era: 'legacy' };
const MODERN: RequestEra = { kind: 'served', era: 'modern' };
const ALL_VERSIONS = [...MODERN_VERSIONS, ...LEGACY_VERSIONS];

/**
 * Returns the era of a message: modern with the version in `_meta`, else legacy. The version header never decides alone, but a
 * contradiction with the body is rejected.
 */
export function eraOf(message: RequestMessage | NotificationMessage, headers: IncomingHttpHeaders): RequestEra {
  const header = headers[HEADER_PROTOCOL_VERSION];
  const meta = message.params._meta;
  const version = isJsonObject(meta) ? meta[META_PROTOCOL_VERSION] : undefined;
  if (version === undefined) return eraByHeader(message, header);
  if (typeof version !== 'string') return rejected(INVALID_PARAMS, `_meta "${META_PROTOCOL_VERSION}" must be a string`);
  if (header === undefined && message.kind === 'request') {
    return rejected(HEADER_MISMATCH, 'header MCP-Protocol-Version is missing');
  }
  if (header !== undefined && header !== version) {
    return rejected(
      HEADER_MISMATCH,
      `header MCP-Protocol-Version ${quoted(header)} differs from _meta ${quoted(version)}`,
    );
  }
  // Only modern versions have this metadata.
  if (!MODERN_VERSIONS.includes(version)) return unsupported(version, MODERN_VERSIONS);
  if (message.kind === 'notification') return MODERN;
  const capabilities = isJsonObject(meta) ? meta[META_CLIENT_CAPABILITIES] : undefined;
  if (!isJsonObject(capabilities)) {
    return rejected(INVALID_PARAMS, `_meta "${META_CLIENT_CAPABILITIES}" is required and must be an object`);
  }
  const info = isJsonObject(meta) ? meta[META_CLIENT_INFO] : undefined;
  if (info !== undefined && !isJsonObject(info)) {
    return rejected(INVALID_PARAMS, `_meta "${META_CLIENT_INFO}" must be an object`);
  }
  const level = isJsonObject(meta) ? meta[META_LOG_LEVEL] : undefined;
  if (level !== undefined && !isLogLevel(level)) {
    return rejected(INVALID_PARAMS, `_meta "${META_LOG_LEVEL}" must be the name of a log level`);
  }
  return { kind: 'served', era: 'modern', capabilities };
}

function eraByHeader(message: RequestMessage | NotificationMessage, header: string | string[] | undefined): RequestEra {
  if (header === undefined || typeof header !== 'string' || LEGACY_VERSIONS.includes(header)) return LEGACY;
  if (message.method === 'initialize') return LEGACY;
  if (!MODERN_VERSIONS.includes(header)) return unsupported(header, ALL_VERSIONS);
  if (message.kind === 'notification') return MODERN;
  return rejected(
    INVALID_PARAMS,
    `version ${header} requires "${META_PROTOCOL_VERSION}" and "${META_CLIENT_CAPABILITIES}" in params._meta`,
  );
}

/** Checks that the headers of a modern message match its body; undefined when they do. */
export function checkModernHeaders(
  message: RequestMessage | NotificationMessage,
  headers: IncomingHttpHeaders,
): RejectedMessage | undefined {
  const method = headers[HEADER_METHOD];
  if (method === undefined) {
    return message.kind === 'request' ? rejected(HEADER_MISMATCH, 'header Mcp-Method is missing') : undefined;
  }
  if (method !== message.method) {
    return rejected(
      HEADER_MISMATCH,
      `header Mcp-Method ${quoted(method)} differs from the body's ${quoted(message.method)}`,
    );
  }
  const member = HEADER_NAME_PARAM.get(message.method);
  if (member === undefined || message.kind !== 'request') return undefined;
  const header = headers[HEADER_NAME];
  if (typeof header !== 'string') return rejected(HEADER_MISMATCH, 'header Mcp-Name is missing');
  const name = decodeHeaderValue(header);
  if (name === undefined) return rejected(HEADER_MISMATCH, 'header Mcp-Name is not valid');
  if (name !== message.params[member]) {
    return rejected(HEADER_MISMATCH, `header Mcp-Name ${quoted(name)} differs from params.${member}`);
  }
  return undefined;
}

function unsupported(requested: string, supported: readonly string[]): RejectedMessage {
  return rejected(UNSUPPORTED_VERSION, 'Unsupported protocol version', { supported, requested });
}

function rejected(code: number, message: string, data?: unknown): RejectedMessage {
  return { kind: 'rejected', code, message, data };
}

/** Quotes and truncates a client's value. */
function quoted(value: string | string[]): string {
  return JSON.stringify(String(value).slice(0, 100));
}

/** Up to 2025-11-25: resource not found. */
export const RESOURCE_NOT_FOUND = -32002;
/** 2025-11-25: the user has to open the URLs in `data.elicitations` first. */
export const URL_ELICITATION_REQUIRED = -32042;

/**
 * Replaces error codes that the modern era has retired (2026-07-28, "Error Codes") in an upstream's response: a missing
 * resource becomes -32602; required URLs become an `InputRequiredResult` with the `requestState` from `state`, after which
 * the client retries the call. Undefined when there is nothing to replace.
 */
export function withoutRetiredCode(
  text: string,
  error: JsonObject,
  method: string,
  capabilities: JsonObject,
  state?: () => string,
): string | undefined {
  if (error.code === RESOURCE_NOT_FOUND) return withCode(text, INVALID_PARAMS);
  if (error.code !== URL_ELICITATION_REQUIRED) return undefined;
  const inputs = NAME_PARAM.has(method) ? elicitations(text, error) : [];
  if (inputs.length === 0) return withCode(text, INTERNAL_ERROR);
  if (!acceptsServerRequest(capabilities, 'elicitation/create', { mode: 'url' })) {
    return withCode(text, MISSING_CAPABILITY, '{"requiredCapabilities":{"elicitation":{"url":{}}}}');
  }
  const requests = inputs.map(
    (params, at) => `"elicitation-${at + 1}":{"method":"elicitation/create","params":${params}}`,
  );
  const requestState = state ? `,"requestState":"${state()}"` : '';
  const result = `{"resultType":"input_required","inputRequests":{${requests.join(',')}}${requestState}}`;
  return `{"jsonrpc":"2.0","id":${memberText(text, 'id') ?? 'null'},"result":${result}}`;
}

/** The params of an elicitation for each URL. */
function elicitations(text: string, { data }: JsonObject): string[] {
  const values = isJsonObject(data) && Array.isArray(data.elicitations) ? data.elicitations : [];
  if (!values.every((value) => isJsonObject(value) && value.mode === 'url' && typeof value.url === 'string')) return [];
  const all = findMembers(text, ['error', 'data', 'elicitations']).at(-1);
  return all
    ? Array.from(elements(text, all.start), ({ start, end }) => withoutElicitationId(text.slice(start, end)))
    : [];
}

/** Removes the `elicitationId` of the legacy era from the params of `elicitation/create`. */
export function withoutElicitationId(params: string): string {
  return removeAt(params, [], (key) => key === 'elicitationId');
}

function withCode(text: string, code: number, data?: string): string {
  const coded = replaceAt(text, ['error', 'code'], String(code));
  return data === undefined ? coded : replaceAt(coded, ['error', 'data'], data);
}

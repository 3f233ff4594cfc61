import type { IncomingHttpHeaders } from 'node:http';
import { applyEdits, removeEdits } from '@sluice/protocol/json/edit';
import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { elements, members, memberText } from '@sluice/protocol/json/scan';
import { answersQuestion, isLogLevel } from './capabilities.ts';
import {
  type Era,
  HEADER_METHOD,
  HEADER_MISMATCH,
  HEADER_NAME,
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

/** Why a message cannot be served in any era: all of these go out with HTTP 400. */
export interface Refusal {
  readonly kind: 'refused';
  readonly code: number;
  readonly message: string;
  readonly data?: unknown;
}

/** The era that a message is served in, or why it is served in none. */
export type RequestEra = { readonly kind: 'served'; readonly era: Era } | Refusal;

const LEGACY: RequestEra = { kind: 'served', era: 'legacy' };
const MODERN: RequestEra = { kind: 'served', era: 'modern' };
const ALL_VERSIONS = [...MODERN_VERSIONS, ...LEGACY_VERSIONS];

/**
 * The era a message is to be served in (mcp 1): the envelope in its `_meta` makes it modern, everything else is
 * legacy. The version header never decides alone, but one that contradicts the body is refused.
 */
export function eraOf(message: RequestMessage | NotificationMessage, headers: IncomingHttpHeaders): RequestEra {
  const header = headers[HEADER_PROTOCOL_VERSION];
  const meta = message.params._meta;
  const claim = isJsonObject(meta) ? meta[META_PROTOCOL_VERSION] : undefined;
  if (claim === undefined) return eraByHeader(message, header);
  if (typeof claim !== 'string') return refused(INVALID_PARAMS, `_meta "${META_PROTOCOL_VERSION}" must be a string`);
  if (header === undefined && message.kind === 'request') {
    return refused(HEADER_MISMATCH, 'header MCP-Protocol-Version is missing');
  }
  if (header !== undefined && header !== claim) {
    return refused(
      HEADER_MISMATCH,
      `header MCP-Protocol-Version ${quoted(header)} differs from _meta ${quoted(claim)}`,
    );
  }
  // The envelope is of the modern era: a legacy version cannot be spoken with it.
  if (!MODERN_VERSIONS.includes(claim)) return unsupported(claim, MODERN_VERSIONS);
  if (message.kind === 'notification') return MODERN;
  const capabilities = isJsonObject(meta) ? meta[META_CLIENT_CAPABILITIES] : undefined;
  if (!isJsonObject(capabilities)) {
    return refused(INVALID_PARAMS, `_meta "${META_CLIENT_CAPABILITIES}" is required and must be an object`);
  }
  const info = isJsonObject(meta) ? meta[META_CLIENT_INFO] : undefined;
  if (info !== undefined && !isJsonObject(info)) {
    return refused(INVALID_PARAMS, `_meta "${META_CLIENT_INFO}" must be an object`);
  }
  const level = isJsonObject(meta) ? meta[META_LOG_LEVEL] : undefined;
  if (level !== undefined && !isLogLevel(level)) {
    return refused(INVALID_PARAMS, `_meta "${META_LOG_LEVEL}" must be the name of a log level`);
  }
  return MODERN;
}

function eraByHeader(message: RequestMessage | NotificationMessage, header: string | string[] | undefined): RequestEra {
  if (header === undefined || typeof header !== 'string' || LEGACY_VERSIONS.includes(header)) return LEGACY;
  if (message.method === 'initialize') return LEGACY;
  if (!MODERN_VERSIONS.includes(header)) return unsupported(header, ALL_VERSIONS);
  if (message.kind === 'notification') return MODERN;
  return refused(
    INVALID_PARAMS,
    `version ${header} requires "${META_PROTOCOL_VERSION}" and "${META_CLIENT_CAPABILITIES}" in params._meta`,
  );
}

/** What is wrong with the headers that mirror a modern message's body; undefined when they agree with it. */
export function checkModernHeaders(
  message: RequestMessage | NotificationMessage,
  headers: IncomingHttpHeaders,
): Refusal | undefined {
  const method = headers[HEADER_METHOD];
  if (method === undefined) {
    return message.kind === 'request' ? refused(HEADER_MISMATCH, 'header Mcp-Method is missing') : undefined;
  }
  if (method !== message.method) {
    return refused(
      HEADER_MISMATCH,
      `header Mcp-Method ${quoted(method)} differs from the body's ${quoted(message.method)}`,
    );
  }
  const member = NAME_PARAM.get(message.method);
  if (member === undefined || message.kind !== 'request') return undefined;
  const header = headers[HEADER_NAME];
  if (typeof header !== 'string') return refused(HEADER_MISMATCH, 'header Mcp-Name is missing');
  const name = decodeHeaderValue(header);
  if (name === undefined) return refused(HEADER_MISMATCH, 'header Mcp-Name is not valid');
  if (name !== message.params[member]) {
    return refused(HEADER_MISMATCH, `header Mcp-Name ${quoted(name)} differs from params.${member}`);
  }
  return undefined;
}

function unsupported(requested: string, supported: readonly string[]): Refusal {
  return refused(UNSUPPORTED_VERSION, 'Unsupported protocol version', { supported, requested });
}

function refused(code: number, message: string, data?: unknown): Refusal {
  return { kind: 'refused', code, message, data };
}

/** What a client sent, short enough to be repeated to it. */
function quoted(value: string | string[]): string {
  return JSON.stringify(String(value).slice(0, 100));
}

/**
 * Whether a client reads event streams, by its `Accept`: one that names JSON and not event streams gets its answer alone;
 * one that names neither reads both.
 */
export function readsStreams(accept: string | undefined): boolean {
  return accept === undefined || accept.includes('event-stream') || !accept.includes('application/json');
}

/** Whether a client reads JSON answers, by its `Accept`: one that names event streams alone does not. */
export function readsJson(accept: string | undefined): boolean {
  return accept === undefined || /application\/(json|\*)|\*\/\*/.test(accept) || !accept.includes('event-stream');
}

/** 2025-11-25 and before: the resource does not exist. */
export const RESOURCE_NOT_FOUND = -32002;
/** 2025-11-25: the user has to visit an address first; `data.elicitations` says which. */
export const URL_ELICITATION_REQUIRED = -32042;

/**
 * An upstream's error response to a call of this method, as a modern client with these capabilities may be given it: the
 * two codes that the modern era has retired are not to be sent (2026-07-28, "Error Codes"). A missing resource is -32602;
 * an address to be visited becomes an `InputRequiredResult`, with the `requestState` that `state` makes, and the client's
 * retry the same call again. Undefined when there is nothing to change.
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
  if (!answersQuestion(capabilities, 'elicitation/create', { mode: 'url' })) {
    return withCode(text, MISSING_CAPABILITY, '{"requiredCapabilities":{"elicitation":{"url":{}}}}');
  }
  const requests = inputs.map(
    (params, at) => `"elicitation-${at + 1}":{"method":"elicitation/create","params":${params}}`,
  );
  const requestState = state ? `,"requestState":"${state()}"` : '';
  const result = `{"resultType":"input_required","inputRequests":{${requests.join(',')}}${requestState}}`;
  return `{"jsonrpc":"2.0","id":${memberText(text, 'id') ?? 'null'},"result":${result}}`;
}

/** The addresses to be visited, each as the params of its request. */
function elicitations(text: string, { data }: JsonObject): string[] {
  const values = isJsonObject(data) && Array.isArray(data.elicitations) ? data.elicitations : [];
  if (!values.every((value) => isJsonObject(value) && value.mode === 'url' && typeof value.url === 'string')) return [];
  const all = memberText(memberText(memberText(text, 'error') ?? '', 'data') ?? '', 'elicitations') ?? '';
  return [...elements(all)].map(({ start, end }) => withoutElicitationId(all.slice(start, end)));
}

/** The params of an `elicitation/create` without the id that only the legacy era knows. */
export function withoutElicitationId(params: string): string {
  return applyEdits(
    params,
    removeEdits(params, 0, (key) => key === 'elicitationId'),
  );
}

function withCode(text: string, code: number, data?: string): string {
  for (const { key, start, end } of members(text)) {
    if (key !== 'error') continue;
    const error = text.slice(start, end);
    const edits = [...members(error)].flatMap((member) => {
      if (member.key === 'code') return [{ ...member, text: String(code) }];
      return member.key === 'data' && data !== undefined ? [{ ...member, text: data }] : [];
    });
    return applyEdits(text, [{ start, end, text: applyEdits(error, edits) }]);
  }
  return text;
}

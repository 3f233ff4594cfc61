import type { IncomingHttpHeaders } from 'node:http';
import { isJsonObject } from '@sluice/json/lossless';
import { isLogLevel } from './log-level.ts';
import type { NotificationMessage, RequestMessage } from './message.ts';
import { decodeHeaderValue } from './param-headers.ts';
import {
  type Era,
  HEADER_METHOD,
  HEADER_MISMATCH,
  HEADER_NAME,
  HEADER_PROTOCOL_VERSION,
  INVALID_PARAMS,
  LEGACY_VERSIONS,
  META_CLIENT_CAPABILITIES,
  META_CLIENT_INFO,
  META_LOG_LEVEL,
  META_PROTOCOL_VERSION,
  MODERN_VERSIONS,
  NAME_PARAM,
  UNSUPPORTED_VERSION,
} from './protocol.ts';

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

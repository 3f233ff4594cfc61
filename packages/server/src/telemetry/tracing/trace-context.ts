import type { IncomingHttpHeaders } from 'node:http';
import type { JsonObject } from '@sluice/protocol/json/parse';

/** Trace context of a request (W3C Trace Context). */
export interface TraceContext {
  /** 32 hex digits, lower case. */
  readonly traceId: string;
  /** Id of the parent span; 16 hex digits, lower case. */
  readonly spanId: string;
  /** Whether the trace is sampled. */
  readonly sampled: boolean;
  /** `tracestate`, unmodified. */
  readonly state: string | undefined;
}

/** `version-trace id-span id-flags`; versions after 00 may have more at their end. */
const TRACEPARENT = /^([\da-f]{2})-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(-.*)?$/;
/** Longer states do not have to be propagated. */
const MAX_STATE_LENGTH = 512;
/** Characters that are valid in a header. */
const VISIBLE = /^[\x20-\x7e]*$/;

/**
 * Returns the trace context of a request; undefined if there is no valid one. `_meta`, which belongs to the message, takes
 * precedence over the headers, which belong to the connection (OpenTelemetry's conventions for MCP, "Context propagation").
 */
export function traceContextOf(headers: IncomingHttpHeaders, meta?: JsonObject): TraceContext | undefined {
  return (
    parseContext(meta?.traceparent, meta?.tracestate) ??
    parseContext(headers.traceparent, headers.tracestate?.toString())
  );
}

function parseContext(parent: unknown, state: unknown): TraceContext | undefined {
  if (typeof parent !== 'string') return undefined;
  const [, version, traceId = '', spanId = '', flags = '', more] = TRACEPARENT.exec(parent.trim()) ?? [];
  if (version === undefined || version === 'ff' || (version === '00' && more !== undefined)) return undefined;
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined;
  const isValidState = typeof state === 'string' && state.length <= MAX_STATE_LENGTH && VISIBLE.test(state);
  const sampled = (Number.parseInt(flags, 16) & 1) === 1;
  return { traceId, spanId, sampled, state: isValidState && state !== '' ? state : undefined };
}

/** Formats the context as `traceparent`. */
export function traceParent({ traceId, spanId, sampled }: TraceContext): string {
  return `00-${traceId}-${spanId}-${sampled ? '01' : '00'}`;
}

/** Returns the headers of the context: names and values, alternating. */
export function traceHeaders(context: TraceContext): string[] {
  const { state } = context;
  return state === undefined
    ? ['traceparent', traceParent(context)]
    : ['traceparent', traceParent(context), 'tracestate', state];
}

/** Members of `_meta` with the context (mcp; reserved without a prefix). */
export const TRACE_MEMBERS: readonly string[] = ['traceparent', 'tracestate'];

/** Returns the members of `_meta` as JSON text. */
export function traceMembers(context: TraceContext): string {
  const parent = `"traceparent":"${traceParent(context)}"`;
  return context.state === undefined ? parent : `${parent},"tracestate":${JSON.stringify(context.state)}`;
}

import type { IncomingHttpHeaders } from 'node:http';
import type { JsonObject } from '@sluice/protocol/json/parse';

/** Where a request stands in a trace, as others have told it (W3C Trace Context). */
export interface TraceContext {
  /** 32 hex digits, lower case. */
  readonly traceId: string;
  /** Of the span that the request comes from; 16 hex digits, lower case. */
  readonly spanId: string;
  /** Whether the trace is recorded. */
  readonly sampled: boolean;
  /** What tracing systems say to each other, as it came. */
  readonly state: string | undefined;
}

/** `version-trace id-span id-flags`; versions after 00 may have more at their end. */
const TRACEPARENT = /^([\da-f]{2})-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(-.*)?$/;
/** Longer ones need not be passed on. */
const LONGEST_STATE = 512;
/** What may stand in a header, where it goes on to. */
const VISIBLE = /^[\x20-\x7e]*$/;

/**
 * The context that a request carries: that of its `_meta`, which belongs to the message, before that of its headers, which
 * belong to the connection (OpenTelemetry's conventions for MCP, "Context propagation"). Undefined where there is none
 * that can be read.
 */
export function traceContextOf(headers: IncomingHttpHeaders, meta?: JsonObject): TraceContext | undefined {
  return (
    contextIn(meta?.traceparent, meta?.tracestate) ?? contextIn(headers.traceparent, headers.tracestate?.toString())
  );
}

function contextIn(parent: unknown, state: unknown): TraceContext | undefined {
  if (typeof parent !== 'string') return undefined;
  const [, version, traceId = '', spanId = '', flags = '', more] = TRACEPARENT.exec(parent.trim()) ?? [];
  if (version === undefined || version === 'ff' || (version === '00' && more !== undefined)) return undefined;
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined;
  const passable = typeof state === 'string' && state.length <= LONGEST_STATE && VISIBLE.test(state);
  const sampled = (Number.parseInt(flags, 16) & 1) === 1;
  return { traceId, spanId, sampled, state: passable && state !== '' ? state : undefined };
}

/** The context as `traceparent` says it. */
export function traceParent({ traceId, spanId, sampled }: TraceContext): string {
  return `00-${traceId}-${spanId}-${sampled ? '01' : '00'}`;
}

/** As names and values of headers, alternating. */
export function traceHeaders(context: TraceContext): string[] {
  const { state } = context;
  return state === undefined
    ? ['traceparent', traceParent(context)]
    : ['traceparent', traceParent(context), 'tracestate', state];
}

/** The members of `_meta` that say it (mcp; reserved without a prefix). */
export const TRACE_MEMBERS: readonly string[] = ['traceparent', 'tracestate'];

/** As members of `_meta`, as JSON text. */
export function traceMembers(context: TraceContext): string {
  const parent = `"traceparent":"${traceParent(context)}"`;
  return context.state === undefined ? parent : `${parent},"tracestate":${JSON.stringify(context.state)}`;
}

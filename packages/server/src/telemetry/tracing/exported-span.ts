import type { SpanContext, TraceState } from '@opentelemetry/api';
import { millisToHrTime } from '@opentelemetry/core';
import type { Resource } from '@opentelemetry/resources';
import type { ReadableSpan } from '@opentelemetry/sdk-trace';
import { SCOPE } from '../otlp.ts';
import { KIND, type Span } from './span.ts';
import type { TraceContext } from './trace-context.ts';

const NONE: never[] = [];

/** Returns an ended span as OpenTelemetry's processor and exporters read it. */
export function exportedSpan(span: Span, resource: Resource): ReadableSpan {
  const { name, kind, attributes, status, context, parent, startedAt, endedAt = startedAt } = span;
  return {
    name,
    kind,
    attributes,
    status,
    resource,
    instrumentationScope: SCOPE,
    spanContext: () => spanContext(context),
    // The parents of server spans are remote, those of other spans are local.
    ...(parent && { parentSpanContext: { ...spanContext(parent), isRemote: kind === KIND.server } }),
    startTime: millisToHrTime(performance.timeOrigin + startedAt),
    endTime: millisToHrTime(performance.timeOrigin + endedAt),
    duration: millisToHrTime(endedAt - startedAt),
    ended: true,
    links: NONE,
    events: NONE,
    droppedAttributesCount: 0,
    droppedEventsCount: 0,
    droppedLinksCount: 0,
  };
}

function spanContext({ traceId, spanId, sampled, state }: TraceContext): SpanContext {
  const context = { traceId, spanId, traceFlags: sampled ? 1 : 0 };
  return state === undefined ? context : { ...context, traceState: opaqueTraceState(state) };
}

/** Wraps the trace state of other systems, which is exported unread. */
function opaqueTraceState(text: string): TraceState {
  const state = { serialize: () => text, get: () => undefined, set: () => state, unset: () => state };
  return state;
}

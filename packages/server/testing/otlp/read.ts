import { z } from 'zod';

/** A span as exported. */
export interface ExportedSpan {
  /** In hex, as `spanId` and `parentSpanId`. */
  readonly traceId: string;
  readonly spanId: string;
  /** Undefined for the root span. */
  readonly parentSpanId: string | undefined;
  readonly traceState: string;
  readonly name: string;
  readonly kind: 'unspecified' | 'internal' | 'server' | 'client' | 'producer' | 'consumer';
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly status: 'unset' | 'ok' | 'error';
  /** Attributes of the resource. */
  readonly resource: Readonly<Record<string, unknown>>;
  readonly milliseconds: number;
}

/** One point of a metric as exported; of histograms `value` is the sum. */
export interface ExportedPoint {
  readonly name: string;
  readonly unit: string;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly value: number;
  /** Of histograms. */
  readonly count: number | undefined;
  readonly resource: Readonly<Record<string, unknown>>;
}

// Both forms have the same members: bytes are hex digits in JSON, and numbers of 64 bits may be texts.
const hex = z.union([z.instanceof(Buffer).transform((bytes) => bytes.toString('hex')), z.string()]).default('');
const long = z.union([z.string(), z.number()]).transform(Number);
const single = z.object({
  stringValue: z.string().optional(),
  boolValue: z.boolean().optional(),
  intValue: long.optional(),
  doubleValue: z.number().optional(),
});
const anyValue = single
  .extend({ arrayValue: z.object({ values: single.array().default([]) }).optional() })
  .transform(({ arrayValue, ...value }) => arrayValue?.values.map(plain) ?? plain(value));
const attributes = z
  .object({ key: z.string(), value: anyValue })
  .array()
  .default([])
  .transform((members) => Object.fromEntries(members.map(({ key, value }) => [key, value])));
const resource = z.object({ attributes }).default({ attributes: {} });

const span = z.object({
  traceId: hex,
  spanId: hex,
  parentSpanId: hex,
  traceState: z.string().default(''),
  name: z.string().default(''),
  kind: z.number().default(0),
  startTimeUnixNano: long,
  endTimeUnixNano: long,
  attributes,
  status: z.object({ code: z.number().default(0) }).default({ code: 0 }),
});
const traces = z.object({
  resourceSpans: z
    .object({ resource, scopeSpans: z.object({ spans: span.array().default([]) }).array() })
    .array()
    .default([]),
});

const KINDS = ['unspecified', 'internal', 'server', 'client', 'producer', 'consumer'] as const;
const STATUSES = ['unset', 'ok', 'error'] as const;

/** The spans of an ExportTraceServiceRequest: from its JSON, or from its bytes by the adjacent `.proto`. */
export function spansOf(request: unknown): ExportedSpan[] {
  return traces.parse(request).resourceSpans.flatMap(({ resource: { attributes: by }, scopeSpans }) =>
    scopeSpans.flatMap(({ spans }) =>
      spans.map(({ startTimeUnixNano, endTimeUnixNano, parentSpanId, kind, status, ...rest }) => ({
        ...rest,
        parentSpanId: parentSpanId === '' ? undefined : parentSpanId,
        kind: KINDS[kind] ?? 'unspecified',
        status: STATUSES[status.code] ?? 'unset',
        resource: by,
        milliseconds: (endTimeUnixNano - startTimeUnixNano) / 1e6,
      })),
    ),
  );
}

const data = z.object({
  dataPoints: z.object({ asDouble: z.number().optional(), asInt: long.optional(), attributes }).array().default([]),
});
const histogram = z.object({
  dataPoints: z
    .object({ count: long, sum: z.number().default(0), attributes })
    .array()
    .default([]),
});
const metric = z.object({
  name: z.string(),
  unit: z.string().default(''),
  gauge: data.optional(),
  sum: data.optional(),
  histogram: histogram.optional(),
});
const metrics = z.object({
  resourceMetrics: z
    .object({ resource, scopeMetrics: z.object({ metrics: metric.array().default([]) }).array() })
    .array()
    .default([]),
});

/** The points of an ExportMetricsServiceRequest, in either form. */
export function pointsOf(request: unknown): ExportedPoint[] {
  return metrics.parse(request).resourceMetrics.flatMap(({ resource: { attributes: by }, scopeMetrics }) =>
    scopeMetrics.flatMap((scope) =>
      scope.metrics.flatMap(({ name, unit, gauge, sum, histogram: distribution }) => [
        ...[...(gauge?.dataPoints ?? []), ...(sum?.dataPoints ?? [])].map((point) => ({
          name,
          unit,
          attributes: point.attributes,
          value: point.asInt ?? point.asDouble ?? 0,
          count: undefined,
          resource: by,
        })),
        ...(distribution?.dataPoints ?? []).map((point) => ({
          name,
          unit,
          attributes: point.attributes,
          value: point.sum,
          count: point.count,
          resource: by,
        })),
      ]),
    ),
  );
}

function plain({ stringValue, boolValue, intValue, doubleValue }: z.infer<typeof single>): unknown {
  return stringValue ?? boolValue ?? intValue ?? doubleValue;
}

import { loadSync } from '@grpc/proto-loader';
import type { Attributes } from '@opentelemetry/api';
import { ProtobufTraceSerializer } from '@opentelemetry/otlp-transformer';
import { resourceFromAttributes } from '@opentelemetry/resources';
import type { ReadableSpan } from '@opentelemetry/sdk-trace';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SpanEncoder } from './otlp-span-encoder.ts';
import { Tracer } from './tracer.ts';

const NO_STATUS = { message: '', code: 0 };

const { 'opentelemetry.proto.collector.trace.v1.TraceService': service } = loadSync('trace.proto', {
  includeDirs: [`${import.meta.dirname}/../../../testing/otlp`],
  longs: String,
  defaults: true,
});

/** What a collector reads of a request. */
function read(bytes: Uint8Array | undefined): unknown {
  if (service === undefined || !('Export' in service)) throw new Error('the service is not described');
  const read = service.Export.requestDeserialize(Buffer.from(bytes ?? []));
  // The library writes the status of a span that has none, which says the same.
  return JSON.parse(JSON.stringify(read), (name, value) => (name === 'status' ? (value ?? NO_STATUS) : value));
}

const text = fc.oneof(fc.string(), fc.string({ unit: 'binary', maxLength: 200 }), fc.constant('x'.repeat(5_000)));
const value = fc.oneof(
  text,
  fc.boolean(),
  fc.maxSafeInteger(),
  fc.double({ noNaN: true, noInteger: true }),
  fc.array(text, { maxLength: 4 }),
  fc.array(fc.boolean(), { maxLength: 4 }),
);
/** Names begin with `prefix`: what a span has by itself has other names than what it has in common with others. */
const attributes = (prefix: string): fc.Arbitrary<Attributes> =>
  fc.dictionary(
    fc.string().map((name) => prefix + name),
    value,
    { maxKeys: 6 },
  );
const described = fc.record({
  name: text,
  role: fc.constantFrom('server', 'client', 'internal'),
  common: attributes('common.'),
  own: attributes('own.'),
  state: fc.option(fc.constantFrom('a=1', 'b=2,c=3'), { nil: undefined }),
  hasParent: fc.boolean(),
  error: fc.option(text, { nil: undefined }),
  message: fc.option(text, { nil: undefined }),
  startedAt: fc.double({ min: 0, max: 1e9, noNaN: true }),
  took: fc.double({ min: 0, max: 1e7, noNaN: true }),
});

describe('spans', () => {
  it('are written as the library writes them, whatever is in them', () => {
    const encoder = new SpanEncoder();
    fc.assert(
      fc.property(fc.array(described, { minLength: 1, maxLength: 5 }), attributes('process.'), (all, ofResource) => {
        const spans: ReadableSpan[] = [];
        const resource = resourceFromAttributes(ofResource);
        const tracer = new Tracer(resource, { parentBased: true, ratio: 1 }, { onEnd: (span) => spans.push(span) });
        for (const { common, own, state, hasParent, error, message, took, ...start } of all) {
          const parent = { traceId: 'a'.repeat(32), spanId: 'b'.repeat(16), sampled: true, state };
          const span = tracer.begin(start, hasParent ? parent : undefined);
          span.common = common;
          Object.assign(span.own, own);
          if (error !== undefined) span.failed(error, message);
          span.end(start.startedAt + took);
        }
        expect(spans).toHaveLength(all.length);
        // Written twice: what spans have in common is written once only.
        for (let time = 0; time < 2; time++) {
          expect(read(encoder.serializeRequest(spans))).toEqual(read(ProtobufTraceSerializer.serializeRequest(spans)));
        }
      }),
    );
  });

  it('that are none are nothing to send', () => {
    expect(new SpanEncoder().serializeRequest([])).toBeUndefined();
  });
});

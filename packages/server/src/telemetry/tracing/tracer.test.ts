import { resourceFromAttributes } from '@opentelemetry/resources';
import type { ReadableSpan } from '@opentelemetry/sdk-trace';
import { describe, expect, it } from 'vitest';
import { Tracing } from './tracing.ts';

const PARENT = { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331', state: 'a=1' };

/** A tracer with this sampler, and the recorded spans. */
function tracing(parentBased: boolean, ratio: number) {
  const recorded: ReadableSpan[] = [];
  const resource = resourceFromAttributes({});
  const tracer = new Tracing(
    resource,
    { parentBased, ratio },
    { onEnd: (span) => recorded.push(span), shutdown: async () => {} },
  );
  const begin = (parent?: 'sampled' | 'unsampled') =>
    tracer.begin({ name: 'work', role: 'server' }, parent && { ...PARENT, sampled: parent === 'sampled' });
  return { recorded, begin };
}

describe('sampling', () => {
  it.each([
    ['always', false, 1, { alone: true, sampled: true, unsampled: true }],
    ['never', false, 0, { alone: false, sampled: false, unsampled: false }],
    ['always but where a parent says no', true, 1, { alone: true, sampled: true, unsampled: false }],
    ['never but where a parent says yes', true, 0, { alone: false, sampled: true, unsampled: false }],
  ])('is decided %s', (_, parentBased, ratio, expected) => {
    const { recorded, begin } = tracing(parentBased, ratio);
    for (const [parent, sampled] of [
      [undefined, expected.alone],
      ['sampled', expected.sampled],
      ['unsampled', expected.unsampled],
    ] as const) {
      const span = begin(parent);
      const child = span.child({ name: 'part', role: 'client' });
      expect([span.context.sampled, child.context.sampled]).toEqual([sampled, sampled]);
      recorded.length = 0;
      child.end();
      span.end();
      const ids = recorded.map((each) => each.spanContext().spanId);
      expect(ids).toEqual(sampled ? [child.context.spanId, span.context.spanId] : []);
    }
  });

  it('samples a ratio of the traces, consistently per trace', () => {
    const { begin } = tracing(true, 0.25);
    const sampled = Array.from({ length: 2_000 }, () => begin().context.sampled);
    const share = sampled.filter((each) => each).length / sampled.length;
    expect(share).toBeGreaterThan(0.15);
    expect(share).toBeLessThan(0.35);
  });
});

describe('a span', () => {
  it('continues the trace of its parent', () => {
    const { recorded, begin } = tracing(true, 1);
    const span = begin('sampled');
    span.end();
    expect(span.context).toMatchObject({ traceId: PARENT.traceId, state: 'a=1', sampled: true });
    expect(span.context.spanId).toMatch(/^[0-9a-f]{16}$/);
    expect(span.context.spanId).not.toBe(PARENT.spanId);
    expect(recorded[0]?.parentSpanContext).toMatchObject({ spanId: PARENT.spanId, isRemote: true });
    expect(recorded[0]?.spanContext().traceState?.serialize()).toBe('a=1');
    expect(begin().context.traceId).not.toBe(begin().context.traceId);
  });

  it('ends once and is not modified afterwards', () => {
    const { recorded, begin } = tracing(true, 1);
    const span = begin();
    span.failed('timeout');
    span.end();
    const [{ endTime } = {}] = recorded;
    span.failed('cancelled');
    span.end(performance.now() + 1_000);
    expect(recorded).toHaveLength(1);
    expect(recorded[0]).toMatchObject({ endTime, attributes: { 'error.type': 'timeout' }, status: { code: 2 } });
  });

  it('has the time of the clock', () => {
    const before = Date.now();
    const { recorded, begin } = tracing(true, 1);
    begin().end();
    const [seconds = 0, nanoseconds = 0] = recorded[0]?.endTime ?? [];
    const ended = seconds * 1000 + nanoseconds / 1e6;
    // The two clocks may differ a little.
    expect(Math.abs(ended - before)).toBeLessThan(10_000);
    expect(nanoseconds).toBeLessThan(1e9);
  });
});

import { describe, expect, it } from 'vitest';
import type { Metric } from './instruments.ts';
import { DeltaConverter } from './otlp-export.ts';

const counter = (...series: [string, number][]): Metric => ({
  name: 'c',
  description: 'c',
  unit: '{x}',
  kind: 'counter',
  series: series.map(([of, value]) => ({ attributes: { of }, value })),
});

const histogram = (...buckets: number[]): Metric => ({
  name: 'h',
  description: 'h',
  unit: 's',
  kind: 'histogram',
  bounds: [1],
  series: [{ attributes: {}, value: { count: buckets[0] ?? 0, sum: buckets[1] ?? 0, buckets: buckets.slice(2) } }],
});

describe('deltas', () => {
  it('are the whole value at first, then the difference', () => {
    const deltas = new DeltaConverter();
    expect(deltas.convert([counter(['a', 5]), histogram(3, 9, 1, 2)])).toEqual([
      counter(['a', 5]),
      histogram(3, 9, 1, 2),
    ]);
    expect(deltas.convert([counter(['a', 7], ['b', 1]), histogram(4, 9.5, 2, 2)])).toEqual([
      counter(['a', 2], ['b', 1]),
      histogram(1, 0.5, 1, 0),
    ]);
    expect(deltas.convert([counter(['a', 7], ['b', 2])])).toEqual([counter(['a', 0], ['b', 1])]);
  });
});

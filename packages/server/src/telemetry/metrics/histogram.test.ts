import { describe, expect, it } from 'vitest';
import { Histogram } from './instruments.ts';

const histogram = () => new Histogram({}, Float64Array.of(0.1, 1, 10));

describe('a histogram', () => {
  it('counts a value in the first bucket whose bound is not below it', () => {
    const values = histogram();
    for (const value of [0, 0.1, 0.100_01, 1, 5, 10, 10.1, 1e9]) values.record(value);
    expect(values.value.buckets).toEqual([2, 2, 2, 2]);
    expect(values.value.count).toBe(8);
    expect(values.value.sum).toBeCloseTo(1e9 + 26.300_01, 5);
  });

  it('does not count what is no duration and no number of things', () => {
    const values = histogram();
    for (const value of [Number.NaN, -1, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]) values.record(value);
    expect(values.value).toEqual({ count: 0, sum: 0, buckets: [0, 0, 0, 0] });
  });

  it('shows what was counted up to a moment', () => {
    const values = histogram();
    values.record(1);
    const before = values.value;
    values.record(1);
    expect(before).toEqual({ count: 1, sum: 1, buckets: [0, 1, 0, 0] });
  });
});

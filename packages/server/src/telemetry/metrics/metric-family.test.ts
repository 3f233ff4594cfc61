import { describe, expect, it } from 'vitest';
import { HistogramFamily, type MetricAttributes } from './instruments.ts';

const OVERFLOW = { 'otel.metric.overflow': true };

/** A family of series whose attributes are those of the operations, and whose keys are their values. */
const family = () =>
  new HistogramFamily<{ readonly names: MetricAttributes; readonly seconds: number }>(
    { name: 'x', description: 'x', unit: 's' },
    [1],
    { key: ({ names }) => Object.values(names).map(String), attributes: ({ names }) => names },
  );

describe('a metric family', () => {
  it('has one series per key', () => {
    const histograms = family();
    for (const name of ['a', 'b', 'a']) histograms.record({ names: { name }, seconds: 1 });
    const { series } = histograms.metric;
    expect(series.map(({ attributes, value }) => [attributes.name, value.count])).toEqual([
      ['a', 2],
      ['b', 1],
    ]);
  });

  it('merges series beyond the limit into an overflow series', () => {
    const histograms = family();
    for (let key = 0; key < 2_002; key++) histograms.record({ names: { key }, seconds: 1 });
    histograms.record({ names: { key: 0 }, seconds: 1 });
    const { series } = histograms.metric;
    const seen = [series[0], series[1_998], series[1_999]].map((each) => [each?.attributes, each?.value.count]);
    expect(seen).toEqual([
      [{ key: 0 }, 2],
      [{ key: 1_998 }, 1],
      [OVERFLOW, 3],
    ]);
    expect(series).toHaveLength(2_000);
  });

  it('has at most 2,000 series for any number of names', () => {
    const histograms = family();
    for (let name = 0; name < 5_000; name++) histograms.record({ names: { name: `name ${name}` }, seconds: 1 });
    histograms.record({ names: { name: 'name 3' }, seconds: 1 });
    const { series } = histograms.metric;
    expect(series).toHaveLength(2_000);
    expect(series.reduce((sum, { value }) => sum + value.count, 0)).toBe(5_001);
    expect(series[3]).toMatchObject({ attributes: { name: 'name 3' }, value: { count: 2 } });
    expect(series.at(-1)).toMatchObject({ attributes: OVERFLOW, value: { count: 3_001, sum: 3_001 } });
  });

  it('distinguishes series by each part of their keys', () => {
    const histograms = family();
    const keys = [['a'], ['a', 'b'], ['a', 'c'], ['a', 'c', 'd'], ['a', 'c', 'd', 'e'], ['a', 'c', 'd', 'f'], ['a']];
    for (const key of keys) histograms.record({ names: Object.fromEntries(key.entries()), seconds: 1 });
    const counts = histograms.metric.series.map(({ attributes, value }) => [
      Object.values(attributes).join(),
      value.count,
    ]);
    expect(counts).toEqual([
      ['a', 2],
      ['a,b', 1],
      ['a,c', 1],
      ['a,c,d', 1],
      ['a,c,d,e', 1],
      ['a,c,d,f', 1],
    ]);
  });
});

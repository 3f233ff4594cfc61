import { describe, expect, it } from 'vitest';
import { HistogramFamily, type MetricAttributes, MetricFamily } from './instruments.ts';

const OVERFLOW = { 'otel.metric.overflow': true };

describe('a metric family', () => {
  it('has one series per key', () => {
    const family = new MetricFamily((attributes) => ({ attributes }));
    const first = family.open('a', () => ({ name: 'a' }));
    const second = family.open('b', () => ({ name: 'b' }));
    expect(family.cells.get('a')).toBe(first);
    expect(family.cells.get('b')).toBe(second);
    expect(family.cells.get('c')).toBeUndefined();
    expect(family.series(({ attributes }) => attributes.name).map(({ value }) => value)).toEqual(['a', 'b']);
  });

  it('merges series beyond the limit into an overflow series', () => {
    const family = new MetricFamily((attributes: MetricAttributes) => ({ attributes }), 3);
    const cells = ['a', 'b', 'c', 'd'].map((key) => family.open(key, () => ({ key })));
    expect(cells.map(({ attributes }) => attributes)).toEqual([{ key: 'a' }, { key: 'b' }, OVERFLOW, OVERFLOW]);
    expect(cells[2]).toBe(cells[3]);
    expect(family.cells.get('a')).toBe(cells[0]);
    expect(family.cells.get('c')).toBeUndefined();
    expect(family.series(() => 0)).toHaveLength(3);
  });

  it('has at most 2,000 series for any number of names', () => {
    const histograms = new HistogramFamily(
      { name: 'x', description: 'x', unit: 's' },
      [1],
      (named: MetricAttributes) => named,
    );
    for (let name = 0; name < 5_000; name++) histograms.record(1, { name }, `name ${name}`);
    histograms.record(1, { name: 3 }, 'name 3');
    const { series } = histograms.metric;
    expect(series).toHaveLength(2_000);
    expect(series.reduce((sum, { value }) => sum + value.count, 0)).toBe(5_001);
    expect(series[3]).toMatchObject({ attributes: { name: 3 }, value: { count: 2 } });
    expect(series.at(-1)).toMatchObject({ attributes: OVERFLOW, value: { count: 3_001, sum: 3_001 } });
  });

  it('distinguishes series by each part of their keys', () => {
    const histograms = new HistogramFamily(
      { name: 'x', description: 'x', unit: 's' },
      [1],
      (named: MetricAttributes) => named,
    );
    const keys = [['a'], ['a', 'b'], ['a', 'c'], ['a', 'c', 'd'], ['a', 'c', 'd', 'e'], ['a', 'c', 'd', 'f'], ['a']];
    for (const [first = '', ...others] of keys) {
      histograms.record(1, { key: [first, ...others].join() }, first, ...others);
    }
    const counts = histograms.metric.series.map(({ attributes, value }) => [attributes.key, value.count]);
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

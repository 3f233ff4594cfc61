import type { components } from '@sluice/contract/client';
import { type ChartPoint, TimeChart } from '../../ui/time-chart.tsx';

type Schemas = components['schemas'];

interface PlotsProps {
  readonly data: Schemas['TimeSeries'];
  readonly series: readonly { readonly name: string; readonly series: Schemas['CallSeries'] }[];
}

/** Calls, errors and latency of some groups over time. */
export default function Plots({ data: { since, step }, series }: PlotsProps) {
  const begin = Date.parse(since);
  const length = Math.max(0, ...series.map(({ series: { calls } }) => calls.length));
  const domain = { begin, end: begin + length * step * 1000 };
  const points = (values: (of: Schemas['CallSeries']) => readonly (number | null)[]): ChartPoint[] =>
    series.flatMap(({ name, series: each }) =>
      values(each).flatMap((value, at) => {
        const date = new Date(begin + at * step * 1000);
        return value === null ? [] : [{ group: name, date, value }];
      }),
    );
  return (
    <div className="plots">
      <TimeChart title="Calls per minute" points={points(({ calls }) => calls)} {...domain} />
      <TimeChart title="Errors per minute" points={points(({ errors }) => errors)} {...domain} />
      <TimeChart title="Latency p95 in ms" points={points(({ p95_ms }) => p95_ms)} {...domain} />
    </div>
  );
}

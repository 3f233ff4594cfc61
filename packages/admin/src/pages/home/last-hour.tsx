import { SkeletonText } from '@carbon/react';
import { CALL_CAUSES } from '@sluice/contract';
import { type components, unwrap } from '@sluice/contract/client';
import { useMemo } from 'react';
import { useApiQuery } from '../../api/queries.ts';
import { ErrorNotice } from '../../ui/notices.tsx';
import { type ChartPoint, TimeChart } from '../../ui/time-chart.tsx';

type TimeSeries = components['schemas']['TimeSeries'];

/** A plot; times are in milliseconds since the epoch. */
interface PlotData {
  readonly title: string;
  readonly points: readonly ChartPoint[];
  readonly begin: number;
  readonly end: number;
}

const MEBIBYTE = 1024 * 1024;

/** Plots of the last hour: calls, latency, completions, and the process of the service. */
export default function LastHour() {
  const { data, error, refetch } = useApiQuery(['other', 'time-series'], (client, signal) =>
    unwrap(client.GET('/api/v1/time-series', { params: { query: { since: '1h', step: '1m' } }, signal })),
  );
  const plots = useMemo(() => data && plotsOf(data), [data]);
  if (error) return <ErrorNotice title="The plots could not be loaded" error={error} onRetry={() => void refetch()} />;
  if (!plots) return <SkeletonText paragraph lineCount={3} />;
  return (
    <div className="plots">
      {plots.map((plot) => (
        <Plot key={plot.title} {...plot} />
      ))}
    </div>
  );
}

function Plot({ title, points, begin, end }: PlotData) {
  if (points.length > 0) return <TimeChart title={title} points={points} begin={begin} end={end} />;
  return (
    <div>
      <h3 className="section-title">{title}</h3>
      <p>Nothing in the last hour.</p>
    </div>
  );
}

function plotsOf({ since, step, service, series }: TimeSeries): PlotData[] {
  const [all] = series;
  const begin = Date.parse(since);
  const points = (group: string, values: readonly (number | null)[] = [], scale = 1): ChartPoint[] =>
    values.flatMap((value, index) =>
      value === null ? [] : [{ group, date: new Date(begin + index * step * 1000), value: value / scale }],
    );
  const end = begin + service.rss_bytes.length * step * 1000;
  const plots = [
    {
      title: 'Tool calls per minute',
      points: [
        ...points('Calls', all?.calls),
        // Causes that occurred have a line.
        ...CALL_CAUSES.flatMap(({ member, title }) => {
          const counts = all?.[member] ?? [];
          return counts.some((count) => count > 0) ? points(title, counts) : [];
        }),
      ],
    },
    { title: 'Latency in ms', points: [...points('p50', all?.p50_ms), ...points('p95', all?.p95_ms)] },
    { title: 'Completions per minute', points: points('Completions', service.completions) },
    { title: 'Event-loop delay in ms', points: points('p99', service.event_loop_delay_ms) },
    {
      title: 'Memory in MiB',
      points: [...points('Resident', service.rss_bytes, MEBIBYTE), ...points('Heap', service.heap_bytes, MEBIBYTE)],
    },
  ];
  return plots.map((plot) => ({ ...plot, begin, end }));
}

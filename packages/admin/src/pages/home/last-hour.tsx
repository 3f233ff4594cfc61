import { LineChart, ScaleTypes } from '@carbon/charts-react';
import '@carbon/charts-react/styles.css';
import { type components, unwrap } from '@sluice/contract/client';
import { useMemo } from 'react';
import { useApiQuery } from '../../api/queries.ts';
import { ErrorNotice } from '../../ui/notices.tsx';
import { useTheme } from '../../ui/theme.ts';

type TimeSeries = components['schemas']['TimeSeries'];

/** A value of a plot; gaps are left out. */
interface Point {
  readonly group: string;
  readonly date: Date;
  readonly value: number;
}

/** A plot; times are in milliseconds since the epoch. */
interface PlotData {
  readonly title: string;
  readonly points: readonly Point[];
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
  if (!plots) return null;
  return (
    <div className="plots">
      {plots.map((plot) => (
        <Plot key={plot.title} {...plot} />
      ))}
    </div>
  );
}

function Plot({ title, points, begin, end }: PlotData) {
  const { theme } = useTheme();
  const isZero = points.every(({ value }) => value === 0);
  const options = useMemo(
    () => ({
      title,
      theme: theme === 'dark' ? ('g100' as const) : ('white' as const),
      height: '16rem',
      points: { enabled: false },
      toolbar: { enabled: false },
      axes: {
        bottom: {
          mapsTo: 'date',
          scaleType: ScaleTypes.TIME,
          domain: [new Date(begin), new Date(end)],
          ticks: { number: 3 },
        },
        left: {
          mapsTo: 'value',
          scaleType: ScaleTypes.LINEAR,
          ...(isZero ? { domain: [0, 1] } : { includeZero: true }),
        },
      },
    }),
    [title, theme, begin, end, isZero],
  );
  if (points.length === 0) {
    return (
      <div>
        <h3 className="section-title">{title}</h3>
        <p>Nothing in the last hour.</p>
      </div>
    );
  }
  return (
    <div ref={removeSkeletonClass}>
      <LineChart data={[...points]} options={options} />
    </div>
  );
}

/**
 * Charts name all parts that they may have in their class, a skeleton among them. Elsewhere such a class means that a page is
 * still loading.
 */
function removeSkeletonClass(element: HTMLElement | null): (() => void) | undefined {
  if (!element) return undefined;
  const remove = (): void => {
    for (const part of element.querySelectorAll('.cds--cc--skeleton-lines'))
      part.classList.remove('cds--cc--skeleton-lines');
  };
  const observer = new MutationObserver(remove);
  observer.observe(element, { subtree: true, childList: true, attributes: true, attributeFilter: ['class'] });
  remove();
  return () => observer.disconnect();
}

function plotsOf({ since, step, service, series }: TimeSeries): PlotData[] {
  const [all] = series;
  const begin = Date.parse(since);
  const points = (group: string, values: readonly (number | null)[] = [], scale = 1): Point[] =>
    values.flatMap((value, index) =>
      value === null ? [] : [{ group, date: new Date(begin + index * step * 1000), value: value / scale }],
    );
  const end = begin + service.rss_bytes.length * step * 1000;
  const plots = [
    { title: 'Tool calls per minute', points: [...points('Calls', all?.calls), ...points('Errors', all?.errors)] },
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

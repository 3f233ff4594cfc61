import { Select, SelectItem } from '@carbon/react';
import { type components, unwrap } from '@sluice/contract/client';
import { lazy, Suspense, useMemo } from 'react';
import { useApi } from '../../api/api.ts';
import { useApiQuery } from '../../api/queries.ts';
import { type Column, DataTable } from '../../ui/data-table.tsx';
import { FilterBar, matches } from '../../ui/filters.tsx';
import { InertText } from '../../ui/inert-text.tsx';
import { EmptyState, ErrorNotice } from '../../ui/notices.tsx';
import { PageFrame } from '../../ui/page-frame.tsx';
import { useParameter } from '../../ui/route.ts';

type CallSeries = components['schemas']['CallSeries'];

const GROUPINGS = ['namespace', 'forward', 'tool'] as const;
/** Groups in a plot; the table has all of them. */
const PLOTTED = 8;

/** Charts are large: the numbers do not wait for them. */
const Plots = lazy(() => import('./plots.tsx'));

/** A group of calls in the last hour. */
interface Group {
  readonly name: string;
  readonly calls: number;
  readonly errors: number;
  readonly p95: number | undefined;
}

const GROUP_COLUMNS: readonly Column<Group>[] = [
  {
    id: 'name',
    header: 'Name',
    accessorFn: ({ name }) => name,
    cell: ({ row }) => <InertText text={row.original.name} maxLength={120} />,
  },
  { id: 'calls', header: 'Calls', accessorFn: ({ calls }) => calls },
  { id: 'errors', header: 'Errors', accessorFn: ({ errors }) => errors },
  { id: 'p95', header: 'Largest p95 in ms', accessorFn: ({ p95 }) => p95 ?? '' },
];

/** A metric as Prometheus reads it. */
interface MetricName {
  readonly name: string;
  readonly type: string;
  readonly help: string;
}

const METRIC_COLUMNS: readonly Column<MetricName>[] = [
  { id: 'metric', header: 'Name', accessorFn: ({ name }) => name },
  { id: 'type', header: 'Type', accessorFn: ({ type }) => type },
  { id: 'help', header: 'Description', accessorFn: ({ help }) => help },
];

/** `#/metrics`: calls of the last hour by group, and the metrics that Prometheus reads. */
export default function Metrics() {
  const [given, setBy] = useParameter('by');
  const [search, setSearch] = useParameter('q');
  const by = GROUPINGS.find((known) => known === given) ?? 'forward';
  const { data, error, refetch } = useApiQuery(['other', 'time-series', by], (client, signal) => {
    const query = { since: '1h', step: '1m', by };
    return unwrap(client.GET('/api/v1/time-series', { params: { query }, signal }));
  });
  const metrics = useMetricNames();
  const groups = useMemo(() => data?.series.map(groupOf), [data]);
  const shown = useMemo(
    () => metrics.data?.filter(({ name, help }) => matches(search, name, help)),
    [metrics.data, search],
  );
  return (
    <PageFrame
      title="Metrics"
      description="Tool calls of the last hour, and all metrics for Prometheus and OpenTelemetry."
    >
      {error && !data && (
        <ErrorNotice title="The time series could not be loaded" error={error} onRetry={() => void refetch()} />
      )}
      <div className="table-filters">
        <Select
          id="metrics-by"
          size="md"
          labelText="Calls by"
          value={by}
          onChange={({ target }) => setBy(target.value)}
        >
          {GROUPINGS.map((grouping) => (
            <SelectItem key={grouping} value={grouping} text={grouping} />
          ))}
        </Select>
      </div>
      {data && data.series.length > 0 && (
        <Suspense>
          <Plots
            data={data}
            series={data.series.slice(0, PLOTTED).map((series) => ({ name: nameOf(series), series }))}
          />
        </Suspense>
      )}
      {(data || !error) && (
        <DataTable
          label={`Calls by ${by}`}
          rows={groups}
          total={groups?.length}
          columns={GROUP_COLUMNS}
          rowKey={({ name }) => name}
          empty={<EmptyState title="No calls in the last hour" text="Calls are counted when they end." />}
        />
      )}
      <h2 className="section-title">Metrics for Prometheus</h2>
      <p>Scrape /metrics of this address. The documentation describes each metric and its labels.</p>
      {metrics.error && <ErrorNotice title="The metrics could not be loaded" error={metrics.error} />}
      <FilterBar search={search} onSearch={setSearch} placeholder="Search metrics" />
      {(metrics.data || !metrics.error) && (
        <DataTable
          label="Metrics"
          rows={shown}
          total={metrics.data?.length}
          columns={METRIC_COLUMNS}
          rowKey={({ name }) => name}
          empty={<EmptyState title="No metric matches" text="Change the search." />}
        />
      )}
    </PageFrame>
  );
}

/** The metrics of the Prometheus text, each with its type and description. */
function useMetricNames() {
  const { base } = useApi();
  return useApiQuery(['other', 'metric-names'], async (_client, signal): Promise<MetricName[]> => {
    const response = await fetch(`${base}/metrics`, { signal });
    if (!response.ok) throw new Error(`the service answered ${response.status}`);
    const text = await response.text();
    const types = new Map([...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, type]) => [name, type ?? '']));
    return [...text.matchAll(/^# HELP (\S+) (.*)$/gm)].map(([, name = '', help = '']) => ({
      name,
      help,
      type: types.get(name) ?? '',
    }));
  });
}

function nameOf({ labels }: CallSeries): string {
  const { namespace, tool, forward, service, other } = labels;
  if (other) return 'other';
  return [namespace, tool, forward, service].filter((label) => label !== undefined).join(' / ');
}

function groupOf(series: CallSeries): Group {
  const sum = (counts: readonly number[]) => counts.reduce((total, count) => total + count, 0);
  const p95 = Math.max(...series.p95_ms.map((value) => value ?? -1));
  return { name: nameOf(series), calls: sum(series.calls), errors: sum(series.errors), p95: p95 < 0 ? undefined : p95 };
}

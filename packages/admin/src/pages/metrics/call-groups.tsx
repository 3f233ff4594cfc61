import { Button, Select, SelectItem } from '@carbon/react';
import { CALL_CAUSES, timeSeriesGrouping } from '@sluice/contract';
import { type components, unwrap } from '@sluice/contract/client';
import { lazy, Suspense, useMemo } from 'react';
import { useApiQuery } from '../../api/queries.ts';
import type { Column } from '../../ui/data-table.tsx';
import { InertText } from '../../ui/inert-text.tsx';
import { loadModule } from '../../ui/load-module.ts';
import { EmptyState } from '../../ui/notices.tsx';
import { QueryTable } from '../../ui/query-table.tsx';
import { useParameter } from '../../ui/route.ts';

type CallSeries = components['schemas']['CallSeries'];

/** Groups in a plot; the table has all of them. */
const PLOTTED = 8;

/** Charts are large: the numbers do not wait for them. */
const Plots = lazy(() => loadModule(() => import('./plots.tsx')));

/** A group of calls in the last hour. */
interface Group {
  readonly name: string;
  readonly calls: number;
  /** Calls by cause, in the order of `CALL_CAUSES`. */
  readonly causes: readonly number[];
  readonly p95: number | undefined;
}

/** Milliseconds. */
const DURATION = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });

const COLUMNS: readonly Column<Group>[] = [
  {
    id: 'name',
    header: 'Name',
    accessorFn: ({ name }) => name,
    cell: ({ row }) => <InertText text={row.original.name} maxLength={120} />,
  },
  { id: 'calls', header: 'Calls', accessorFn: ({ calls }) => calls },
  ...CALL_CAUSES.map(
    ({ member, title }, at): Column<Group> => ({
      id: member,
      header: title,
      accessorFn: ({ causes }) => causes[at] ?? 0,
    }),
  ),
  {
    id: 'p95',
    header: 'Largest p95 in ms',
    accessorFn: ({ p95 }) => p95 ?? -1,
    cell: ({ row: { original } }) => (original.p95 === undefined ? '–' : DURATION.format(original.p95)),
  },
];

/** Plots and sums of the calls of the last hour, grouped by what the address selects. */
export function CallGroups() {
  const [given, setBy] = useParameter('by');
  const by = timeSeriesGrouping.options.find((known) => known === given) ?? 'forward';
  const series = useApiQuery(['other', 'time-series', by], (client, signal) => {
    const query = { since: '1h', step: '1m', by };
    return unwrap(client.GET('/api/v1/time-series', { params: { query }, signal }));
  });
  const { data } = series;
  const groups = useMemo(() => data?.series.map(groupOf), [data]);
  return (
    <>
      <div className="table-filters">
        <Select
          id="metrics-by"
          size="md"
          labelText="Calls by"
          helperText={by === 'method' ? 'All MCP requests of clients' : 'Tool calls'}
          value={by}
          onChange={({ target }) => setBy(target.value)}
        >
          {timeSeriesGrouping.options.map((grouping) => (
            <SelectItem key={grouping} value={grouping} text={grouping} />
          ))}
        </Select>
      </div>
      {data && data.series.length > 0 && (
        <Suspense>
          <Plots
            data={data}
            series={data.series.slice(0, PLOTTED).map((each) => ({ name: nameOf(each), series: each }))}
          />
        </Suspense>
      )}
      <QueryTable
        query={series}
        label={`Calls by ${by}`}
        rows={groups}
        all={groups?.length}
        columns={COLUMNS}
        rowKey={({ name }) => name}
        empty={
          <EmptyState
            title="No calls in the last hour"
            text="Calls are counted when they end."
            action={<Button onClick={() => void series.refetch()}>Check again</Button>}
          />
        }
      />
    </>
  );
}

function nameOf({ labels: { other, ...labels } }: CallSeries): string {
  return other ? 'other' : Object.values(labels).join(' / ');
}

function groupOf(series: CallSeries): Group {
  const sum = (counts: readonly number[]) => counts.reduce((total, count) => total + count, 0);
  const p95 = Math.max(...series.p95_ms.map((value) => value ?? -1));
  return {
    name: nameOf(series),
    calls: sum(series.calls),
    causes: CALL_CAUSES.map(({ member }) => sum(series[member])),
    p95: p95 < 0 ? undefined : p95,
  };
}

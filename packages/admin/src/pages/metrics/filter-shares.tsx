import { Button } from '@carbon/react';
import { useMemo } from 'react';
import { type Metrics, useMetrics } from '../../api/queries.ts';
import type { Column } from '../../ui/data-table.tsx';
import { EmptyState } from '../../ui/notices.tsx';
import { QueryTable } from '../../ui/query-table.tsx';

/** What a filter did with its requests; shares are from 0 to 1. */
interface FilterShare {
  readonly name: string;
  readonly requests: number;
  readonly passed: number;
  readonly answered: number;
  readonly rejected: number;
  readonly failed: number;
  /** Of the time of all filters. */
  readonly time: number;
}

const COLUMNS: readonly Column<FilterShare>[] = [
  { id: 'filter', header: 'Filter', accessorFn: ({ name }) => name },
  { id: 'filter-requests', header: 'Requests', accessorFn: ({ requests }) => requests },
  share('filter-passed', 'Passed on', ({ passed }) => passed),
  share('filter-answered', 'Answered', ({ answered }) => answered),
  share('filter-rejected', 'Rejected', ({ rejected }) => rejected),
  share('filter-failed', 'Failed', ({ failed }) => failed),
  share('filter-time', 'Of the time in filters', ({ time }) => time),
];

/** What each filter has done with its requests since the service started, in the order of the chain. */
export function FilterShares() {
  const metrics = useMetrics();
  const rows = useMemo(() => metrics.data && sharesOf(metrics.data.filters), [metrics.data]);
  return (
    <QueryTable
      query={metrics}
      label="Filters"
      rows={rows}
      all={rows?.length}
      columns={COLUMNS}
      rowKey={({ name }) => name}
      empty={
        <EmptyState
          title="No filters"
          text="The pipeline file has the filters of each listener."
          action={<Button onClick={() => void metrics.refetch()}>Check again</Button>}
        />
      }
    />
  );
}

function share(id: string, header: string, of: (filter: FilterShare) => number): Column<FilterShare> {
  return { id, header, accessorFn: of, cell: ({ row }) => formatShare(of(row.original)) };
}

const PERCENT = new Intl.NumberFormat(undefined, { style: 'percent', maximumFractionDigits: 1 });

/** Shares of nothing are unknown. */
function formatShare(value: number): string {
  return Number.isNaN(value) ? '–' : PERCENT.format(value);
}

function sharesOf(filters: Metrics['filters']): FilterShare[] {
  const totalMs = Object.values(filters).reduce((sum, { duration }) => sum + duration.total_ms, 0);
  return Object.entries(filters).map(([name, counts]) => {
    const { requests_continue: passed, requests_other: answered, requests_reject: rejected, errors: failed } = counts;
    const requests = passed + answered + rejected + failed;
    return {
      name,
      requests,
      passed: passed / requests,
      answered: answered / requests,
      rejected: rejected / requests,
      failed: failed / requests,
      time: counts.duration.total_ms / totalMs,
    };
  });
}

import { Button } from '@carbon/react';
import { DEFAULT_NAMESPACE } from '@sluice/contract';
import { useMemo } from 'react';
import { type Metrics, useMetrics } from '../../api/queries.ts';
import { type Column, DataTable } from '../../ui/data-table.tsx';
import { EmptyState, ErrorNotice } from '../../ui/notices.tsx';
import { routeTo } from '../../ui/route.ts';

interface FilterRow {
  readonly name: string;
  readonly requests: number;
  readonly rejected: number;
  readonly errors: number;
  readonly averageMs: number;
}

interface EvaluatorRow {
  readonly name: string;
  readonly runs: number;
  readonly passed: number;
  readonly blocked: number;
  readonly rejected: number;
  readonly failed: number;
  readonly averageMs: number;
}

const FILTER_COLUMNS: readonly Column<FilterRow>[] = [
  { id: 'filter', header: 'Filter', accessorFn: ({ name }) => name },
  { id: 'requests', header: 'Requests', accessorFn: ({ requests }) => requests },
  { id: 'rejected', header: 'Rejected', accessorFn: ({ rejected }) => rejected },
  { id: 'errors', header: 'Errors', accessorFn: ({ errors }) => errors },
  { id: 'average', header: 'Average', accessorFn: ({ averageMs }) => averageMs, cell: milliseconds },
];

// Both tables are sorted by the same parameter of the address.
const EVALUATOR_COLUMNS: readonly Column<EvaluatorRow>[] = [
  { id: 'evaluator', header: 'Evaluator', accessorFn: ({ name }) => name },
  { id: 'runs', header: 'Runs', accessorFn: ({ runs }) => runs },
  { id: 'passed', header: 'Passed', accessorFn: ({ passed }) => passed },
  { id: 'blocked', header: 'Blocked', accessorFn: ({ blocked }) => blocked },
  { id: 'malformed', header: 'Rejected as malformed', accessorFn: ({ rejected }) => rejected },
  { id: 'failed', header: 'Failed', accessorFn: ({ failed }) => failed },
  { id: 'evaluator-average', header: 'Average', accessorFn: ({ averageMs }) => averageMs, cell: milliseconds },
];

function milliseconds({ getValue }: { getValue(): unknown }): string {
  return `${Number(getValue()).toLocaleString(undefined, { maximumFractionDigits: 2 })} ms`;
}

/** Counters of the filters and evaluators since the service started. */
export function MetricTables() {
  const { data, error, refetch } = useMetrics();
  const filters = useMemo(() => data && filterRows(data.filters), [data]);
  const evaluators = useMemo(() => data && evaluatorRows(data.evaluators), [data]);
  if (error) return <ErrorNotice title="Metrics could not be loaded" error={error} onRetry={() => void refetch()} />;
  return (
    <>
      <section aria-labelledby="filters">
        <h2 id="filters" className="section-title">
          Filters
        </h2>
        <DataTable
          label="Filters"
          rows={filters}
          columns={FILTER_COLUMNS}
          rowKey={({ name }) => name}
          empty={
            <EmptyState
              title="No requests"
              text="No request has passed a filter since the service started."
              action={<Button href={routeTo('/namespaces', { open: DEFAULT_NAMESPACE })}>Connect an agent</Button>}
            />
          }
        />
      </section>
      <section aria-labelledby="evaluators">
        <h2 id="evaluators" className="section-title">
          Evaluators
        </h2>
        <DataTable
          label="Evaluators"
          rows={evaluators}
          columns={EVALUATOR_COLUMNS}
          rowKey={({ name }) => name}
          empty={
            <EmptyState
              title="No evaluations"
              text="No evaluator has run since the service started."
              action={<Button href={routeTo('/evaluators')}>Show the evaluators</Button>}
            />
          }
        />
      </section>
    </>
  );
}

function filterRows(filters: Metrics['filters']): FilterRow[] {
  return Object.entries(filters).map(([name, counts]) => ({
    name,
    requests: counts.requests_continue + counts.requests_reject + counts.requests_other,
    rejected: counts.requests_reject,
    errors: counts.errors,
    averageMs: counts.duration.avg_ms,
  }));
}

function evaluatorRows(evaluators: Metrics['evaluators']): EvaluatorRow[] {
  return Object.entries(evaluators).map(([name, { decisions, pipeline_duration, failures }]) => ({
    name,
    runs: pipeline_duration.count,
    passed: decisions.pass + decisions.warn,
    blocked: decisions.block,
    rejected: decisions.reject_malformed,
    failed: failures.llm_failure + failures.action_failure + failures.busy,
    averageMs: pipeline_duration.avg_ms,
  }));
}

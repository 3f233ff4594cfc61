import { Button } from '@carbon/react';
import { useMemo } from 'react';
import { useApi } from '../../api/api.ts';
import { useApiQuery } from '../../api/queries.ts';
import type { Column } from '../../ui/data-table.tsx';
import { FilterBar, matches } from '../../ui/filters.tsx';
import { InertText } from '../../ui/inert-text.tsx';
import { DetailsModal } from '../../ui/modal.tsx';
import { EmptyState } from '../../ui/notices.tsx';
import { QueryTable } from '../../ui/query-table.tsx';
import { useParameter } from '../../ui/route.ts';
import { actionsColumn } from '../../ui/row-actions.tsx';

/** A metric as Prometheus reads it. */
interface Metric {
  readonly name: string;
  readonly type: string;
  readonly help: string;
  /** Lines with labels and values. */
  readonly samples: readonly string[];
  /** Combinations of labels. */
  readonly series: number;
}

/** All metrics of `/metrics` with their current values. */
export function PrometheusMetrics() {
  const [search, setSearch] = useParameter('q');
  const [open, setOpen] = useParameter('open', { push: true });
  const metrics = usePrometheusMetrics();
  const { data } = metrics;
  const columns = useMemo<readonly Column<Metric>[]>(
    () => [
      { id: 'metric', header: 'Name', accessorFn: ({ name }) => name },
      { id: 'type', header: 'Type', accessorFn: ({ type }) => type },
      { id: 'help', header: 'Description', accessorFn: ({ help }) => help },
      { id: 'series', header: 'Series', accessorFn: ({ series }) => series },
      actionsColumn((row) => ({ Details: () => setOpen(row.name) })),
    ],
    [setOpen],
  );
  const shown = useMemo(() => data?.filter(({ name, help }) => matches(search, name, help)), [data, search]);
  const opened = data?.find(({ name }) => name === open);
  return (
    <>
      <p>Prometheus scrapes /metrics of this address and reads these names and values.</p>
      <FilterBar search={search} onSearch={setSearch} placeholder="Search metrics" />
      <QueryTable
        query={metrics}
        label="Metrics"
        rows={shown}
        all={data?.length}
        columns={columns}
        rowKey={({ name }) => name}
        onOpen={({ name }) => setOpen(name)}
        empty={
          <EmptyState
            title="No metrics"
            text="The service has counted nothing yet."
            action={<Button onClick={() => void metrics.refetch()}>Check again</Button>}
          />
        }
      />
      {opened && (
        <DetailsModal heading={opened.name} label={opened.type} onClose={() => setOpen('')}>
          <p>{opened.help}</p>
          <pre className="text-content">
            <InertText text={opened.samples.join('\n')} maxLength={100_000} />
          </pre>
        </DetailsModal>
      )}
    </>
  );
}

function usePrometheusMetrics() {
  const { base } = useApi();
  return useApiQuery(['other', 'prometheus'], async (_client, signal): Promise<Metric[]> => {
    const response = await fetch(`${base}/metrics`, { signal });
    if (!response.ok) throw new Error(`the service answered ${response.status}`);
    return parseMetrics(await response.text());
  });
}

/** Parses Prometheus' text format; a metric begins with `# HELP`. */
function parseMetrics(text: string): Metric[] {
  const blocks = text.split(/^# HELP /m).slice(1);
  return blocks.map((block) => {
    const [head = '', ...lines] = block.split('\n');
    const [name = ''] = head.split(' ', 1);
    const samples = lines.filter((line) => line !== '' && !line.startsWith('#'));
    const type = / (\w+)$/.exec(lines.find((line) => line.startsWith('# TYPE ')) ?? '')?.[1] ?? '';
    // A histogram has several lines for each combination of labels.
    const counted = type === 'histogram' ? samples.filter((line) => line.startsWith(`${name}_count`)) : samples;
    return { name, type, help: head.slice(name.length + 1), samples, series: counted.length };
  });
}

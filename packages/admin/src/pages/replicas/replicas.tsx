import { Button, InlineNotification, Tag } from '@carbon/react';
import { unwrap } from '@sluice/contract/client';
import { type Replica, useApiQuery } from '../../api/queries.ts';
import type { Column } from '../../ui/data-table.tsx';
import { EmptyState } from '../../ui/notices.tsx';
import { PageFrame } from '../../ui/page-frame.tsx';
import { QueryTable } from '../../ui/query-table.tsx';

const COLUMNS: readonly Column<Replica>[] = [
  {
    id: 'id',
    header: 'Replica',
    accessorFn: ({ id }) => id,
    cell: ({ row: { original } }) => (
      <>
        {original.id}
        {original.self && <Tag type="blue">this one</Tag>}
      </>
    ),
  },
  { id: 'version', header: 'Version', accessorFn: ({ version }) => version },
  {
    id: 'state',
    header: 'State',
    accessorFn: stateOf,
    cell: ({ row: { original } }) => <Tag type={original.live ? 'green' : 'red'}>{stateOf(original)}</Tag>,
  },
  {
    id: 'age',
    header: 'Running for',
    accessorFn: ({ startedAt }) => ageOf(startedAt),
    cell: ({ row: { original } }) => (
      <time dateTime={original.startedAt} title={new Date(original.startedAt).toLocaleString()}>
        {formatAge(ageOf(original.startedAt))}
      </time>
    ),
  },
  {
    id: 'load',
    header: 'Processor',
    accessorFn: ({ load }) => load,
    cell: ({ row: { original } }) => (original.live ? PERCENT.format(original.load) : ''),
  },
  { id: 'forwards', header: 'Forwards that it discovers', accessorFn: ({ forwards }) => forwards },
  { id: 'lag', header: 'Commits behind', accessorFn: ({ lag }) => lag },
];

/** `#/replicas`: the processes that share the database of the service. */
export default function Replicas() {
  const replicas = useApiQuery(['other', 'replicas'], (client, signal) =>
    unwrap(client.GET('/api/v1/replicas', { signal })),
  );
  const { data } = replicas;
  const versions = new Set(data?.filter(({ live }) => live).map(({ version }) => version));
  return (
    <PageFrame
      title="Replicas"
      description="Processes of the service that share its database. Each of them serves all clients."
    >
      {versions.size > 1 && (
        <InlineNotification
          kind="warning"
          lowContrast
          hideCloseButton
          title="Replicas have different versions"
          subtitle={`${[...versions].sort().join(', ')}: finish the upgrade. Older ones may not be able to store changes.`}
        />
      )}
      <QueryTable
        query={replicas}
        label="Replicas"
        rows={data}
        all={data?.length}
        columns={COLUMNS}
        rowKey={({ id }) => id}
        empty={
          <EmptyState
            title="A single process"
            text="This service has a registry of its own. With SERVICE_PERSIST_BACKEND=postgres, any number of replicas share a database."
            action={<Button onClick={() => void replicas.refetch()}>Check again</Button>}
          />
        }
      />
    </PageFrame>
  );
}

function stateOf({ live }: Replica): string {
  return live ? 'Live' : 'Gone';
}

const PERCENT = new Intl.NumberFormat(undefined, { style: 'percent', maximumFractionDigits: 0 });

/** Seconds since a replica has started. */
function ageOf(startedAt: string): number {
  return Math.max(0, Math.round((Date.now() - Date.parse(startedAt)) / 1_000));
}

const UNITS = [
  ['d', 86_400],
  ['h', 3_600],
  ['min', 60],
  ['s', 1],
] as const;

/** `2 d 5 h`: the two largest units. */
function formatAge(seconds: number): string {
  const first = UNITS.findIndex(([, size]) => seconds >= size);
  if (first === -1) return '0 s';
  let rest = seconds;
  const parts: string[] = [];
  for (const [unit, size] of UNITS.slice(first, first + 2)) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count > 0) parts.push(`${count} ${unit}`);
  }
  return parts.join(' ');
}

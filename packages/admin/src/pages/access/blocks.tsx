import { Button } from '@carbon/react';
import { useMemo } from 'react';
import { type Block, useBlocks } from '../../api/queries.ts';
import { isForward, useBlocking } from '../../ui/blocking.tsx';
import type { Column } from '../../ui/data-table.tsx';
import { InertText } from '../../ui/inert-text.tsx';
import { EmptyState } from '../../ui/notices.tsx';
import { QueryTable } from '../../ui/query-table.tsx';
import { actionsColumn } from '../../ui/row-actions.tsx';

/** The principals, keys and forwards that are blocked. */
export function Blocks() {
  const blocks = useBlocks();
  const { data, refetch } = blocks;
  const { unblock, dialog } = useBlocking();
  const columns = useMemo<readonly Column<Block>[]>(
    () => [
      {
        id: 'id',
        header: 'Principal, key or forward',
        accessorFn: ({ id }) => id,
        cell: ({ row }) => <InertText text={row.original.id} maxLength={200} />,
      },
      {
        id: 'since',
        header: 'Since',
        accessorFn: ({ since }) => since,
        cell: ({ row }) => new Date(row.original.since).toLocaleString(),
      },
      {
        id: 'until',
        header: 'Until',
        // Those without an end come last.
        accessorFn: ({ until = '~' }) => until,
        cell: ({ row: { original } }) => (original.until ? new Date(original.until).toLocaleString() : 'unblocked'),
      },
      {
        id: 'reason',
        header: 'Reason',
        accessorFn: ({ reason = '' }) => reason,
        cell: ({ row }) => <InertText text={row.original.reason ?? '–'} maxLength={200} />,
      },
      {
        id: 'by',
        header: 'By',
        accessorFn: ({ by = '' }) => by,
        cell: ({ row }) => <InertText text={row.original.by ?? 'anonymous'} maxLength={200} />,
      },
      actionsColumn(
        ({ id }) => ({ Unblock: () => unblock(id) }),
        ({ id }) => (isForward(id) ? 'change_registry' : 'administer'),
      ),
    ],
    [unblock],
  );
  return (
    <>
      <QueryTable
        query={blocks}
        label="Blocks"
        rows={data}
        all={data?.length}
        columns={columns}
        rowKey={({ id }) => id}
        empty={
          <EmptyState
            title="Nothing is blocked"
            text="Block a principal, a key or a forward to end at once what it has open."
            action={<Button onClick={() => void refetch()}>Check again</Button>}
          />
        }
      />
      {dialog}
    </>
  );
}

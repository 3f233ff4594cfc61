import { Button, Tag } from '@carbon/react';
import { type components, unwrap } from '@sluice/contract/client';
import { useMemo } from 'react';
import { useApiQuery, useBlocks } from '../../api/queries.ts';
import { useBlocking } from '../../ui/blocking.tsx';
import type { Column } from '../../ui/data-table.tsx';
import { InertText } from '../../ui/inert-text.tsx';
import { EmptyState } from '../../ui/notices.tsx';
import { QueryTable } from '../../ui/query-table.tsx';
import { actionsColumn } from '../../ui/row-actions.tsx';

type Key = components['schemas']['ServiceKeyStatus'];

/** How long before its expiry a key is marked. */
const SOON_MS = 30 * 24 * 60 * 60 * 1_000;

/** What administrators watch of the active settings. */
export function useIdentityStatus() {
  return useApiQuery(['other', 'identity', 'status'], (client, signal) =>
    unwrap(client.GET('/api/v1/identity/status', { signal })),
  );
}

/** The keys of service accounts. */
export function Keys() {
  const status = useIdentityStatus();
  const { data: blocks } = useBlocks();
  const { block, unblock, dialog } = useBlocking();
  const { data, refetch } = status;
  const columns = useMemo<readonly Column<Key>[]>(() => {
    const blocked = new Set(blocks?.map(({ id }) => id));
    return [
      {
        id: 'name',
        header: 'Name',
        accessorFn: ({ name }) => name,
        cell: ({ row: { original } }) => (
          <>
            {original.name}
            {blocked.has(idOf(original)) && <Tag type="red">Blocked</Tag>}
          </>
        ),
      },
      {
        id: 'groups',
        header: 'Groups',
        accessorFn: ({ groups }) => groups.join(', '),
        cell: ({ row: { original } }) => <InertText text={original.groups.join(', ') || '–'} maxLength={300} />,
      },
      { id: 'counts', header: 'Counts in', accessorFn: placesOf },
      {
        id: 'expires',
        header: 'Expires',
        // Those that do not expire come last.
        accessorFn: ({ expiresAt = '~' }) => expiresAt,
        cell: ({ row }) => <Expiry expiresAt={row.original.expiresAt} />,
      },
      {
        id: 'used',
        header: 'Last use',
        accessorFn: ({ hashes }) =>
          hashes
            .map(({ lastUsedAt = '' }) => lastUsedAt)
            .toSorted()
            .at(-1),
        cell: ({ row }) => <LastUse of={row.original} />,
      },
      actionsColumn((key) => {
        const isBlocked = blocked.has(idOf(key));
        return { [isBlocked ? 'Unblock' : 'Block']: () => (isBlocked ? unblock : block)(idOf(key)) };
      }, 'administer'),
    ];
  }, [blocks, block, unblock]);
  return (
    <>
      <p>
        The last use is that since the start of the service, of several replicas that of the one that answers; the
        metric sluice.key.last_use.timestamp has that of each. <code>sluice keys create</code> makes a key.
      </p>
      <QueryTable
        query={status}
        label="Keys"
        rows={data?.keys}
        all={data?.keys.length}
        columns={columns}
        rowKey={({ name }) => name}
        empty={
          <EmptyState
            title="No keys"
            text="Service accounts have keys in the settings of identity."
            action={<Button onClick={() => void refetch()}>Check again</Button>}
          />
        }
      />
      {dialog}
    </>
  );
}

/** Id of the principal of a key. */
function idOf({ name }: Key): string {
  return `keys/${name}`;
}

function placesOf({ for: namespaces, management }: Key): string {
  const places = namespaces.includes('*') ? ['all namespaces'] : namespaces;
  return [...places, ...(management ? ['management API'] : [])].join(', ');
}

function Expiry({ expiresAt }: { readonly expiresAt: string | undefined }) {
  if (expiresAt === undefined) return 'never';
  const rest = Date.parse(expiresAt) - Date.now();
  return (
    <>
      {new Date(expiresAt).toLocaleString()}
      {rest <= 0 ? <Tag type="red">Expired</Tag> : rest <= SOON_MS && <Tag type="magenta">Expires soon</Tag>}
    </>
  );
}

/** Of a key that is being exchanged, the use of each of its hashes: the earlier one can be removed when it is unused. */
function LastUse({ of: { hashes } }: { readonly of: Key }) {
  return hashes.map(({ sha256, lastUsedAt }) => (
    <div key={sha256}>
      {hashes.length > 1 && (
        <>
          <code title={sha256}>{sha256.slice(0, 8)}</code>:{' '}
        </>
      )}
      {lastUsedAt === undefined ? 'none' : new Date(lastUsedAt).toLocaleString()}
    </div>
  ));
}

import { Button, Tag } from '@carbon/react';
import { type components, unwrap } from '@sluice/contract/client';
import { useMemo } from 'react';
import { useApiQuery, useChange } from '../../api/queries.ts';
import { useBlocking } from '../../ui/blocking.tsx';
import type { Column } from '../../ui/data-table.tsx';
import { InertText } from '../../ui/inert-text.tsx';
import { EmptyState } from '../../ui/notices.tsx';
import { PageFrame } from '../../ui/page-frame.tsx';
import { QueryTable } from '../../ui/query-table.tsx';
import { actionsColumn } from '../../ui/row-actions.tsx';
import { useToasts } from '../../ui/toasts.tsx';

type SignIn = components['schemas']['SignInSession'];

function timeColumn(id: 'signedInAt' | 'refreshedAt' | 'expiresAt', header: string): Column<SignIn> {
  return {
    id,
    header,
    accessorFn: (signIn) => signIn[id],
    cell: ({ row }) => new Date(row.original[id]).toLocaleString(),
  };
}

/** `#/sign-ins`: who has signed in to the console. */
export default function SignIns() {
  const toasts = useToasts();
  const signIns = useApiQuery(['other', 'sessions'], (client, signal) =>
    unwrap(client.GET('/api/v1/sessions', { signal })),
  );
  const end = useChange<string>({
    run: (client, id) => unwrap(client.DELETE('/api/v1/sessions/{id}', { params: { path: { id } } })),
    changes: [],
  });
  const { data, refetch } = signIns;
  const { block, dialog } = useBlocking();
  const columns = useMemo<readonly Column<SignIn>[]>(
    () => [
      {
        id: 'person',
        header: 'Person',
        accessorFn: ({ person, principal }) => person ?? principal.id,
        cell: ({ row: { original } }) => (
          <>
            <InertText text={original.person ?? original.principal.id} maxLength={200} />
            {original.current && <Tag type="blue">you</Tag>}
          </>
        ),
      },
      {
        id: 'principal',
        header: 'Principal',
        accessorFn: ({ principal }) => principal.id,
        cell: ({ row }) => <InertText text={row.original.principal.id} maxLength={200} />,
      },
      timeColumn('signedInAt', 'Signed in'),
      timeColumn('refreshedAt', 'Confirmed by the issuer'),
      timeColumn('expiresAt', 'Ends'),
      actionsColumn(
        ({ id, person, principal }) => ({
          End: async () => {
            try {
              await end(id);
              toasts.show({ kind: 'success', title: `The sign-in of ${person ?? principal.id} has ended` });
              await refetch();
            } catch (error) {
              toasts.fail('The sign-in could not be ended', error);
            }
          },
          Block: () => block(principal.id),
        }),
        'administer',
      ),
    ],
    [end, refetch, toasts, block],
  );
  return (
    <PageFrame title="Sign-ins" description="People who have signed in to the console, on all replicas.">
      <QueryTable
        query={signIns}
        label="Sign-ins"
        rows={data}
        all={data?.length}
        columns={columns}
        rowKey={({ id }) => id}
        empty={
          <EmptyState
            title="No sign-ins"
            text="Nobody has signed in with an identity provider."
            action={<Button onClick={() => void refetch()}>Check again</Button>}
          />
        }
      />
      {dialog}
    </PageFrame>
  );
}

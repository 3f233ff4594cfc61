import { Button, SkeletonText, Tag } from '@carbon/react';
import { type components, unwrap } from '@sluice/contract/client';
import { useCallback, useMemo, useState } from 'react';
import { useApiQuery, useEvaluatorSet } from '../../api/queries.ts';
import { Allowed } from '../../ui/allowed.tsx';
import type { Column } from '../../ui/data-table.tsx';
import { DiffView } from '../../ui/diff-view.tsx';
import { InertText } from '../../ui/inert-text.tsx';
import { DetailsModal } from '../../ui/modal.tsx';
import { EmptyState, ErrorNotice } from '../../ui/notices.tsx';
import { QueryTable } from '../../ui/query-table.tsx';
import { routeTo } from '../../ui/route.ts';
import { actionsColumn } from '../../ui/row-actions.tsx';
import { useToasts } from '../../ui/toasts.tsx';
import { useEvaluatorChanges } from './evaluator-changes.ts';

type EvaluatorRevision = components['schemas']['EvaluatorRevision'];

const TAGS = { active: 'green', superseded: 'gray', rejected: 'red' } as const;

/** The stored versions of the set, with differences and roll-back. */
export function Revisions() {
  const toasts = useToasts();
  const { activate } = useEvaluatorChanges();
  const [compared, setCompared] = useState<number>();
  const revisions = useApiQuery(['evaluators', 'revisions'], (client, signal) =>
    unwrap(client.GET('/api/v1/evaluators/revisions', { signal })),
  );
  const rollBack = useCallback(
    async (id: number): Promise<void> => {
      try {
        await activate(id);
        toasts.show({ kind: 'success', title: `Revision ${id} is active again, as a new revision` });
      } catch (reason) {
        toasts.fail(`Revision ${id} was not activated`, reason);
      }
    },
    [activate, toasts],
  );
  const columns = useMemo<readonly Column<EvaluatorRevision>[]>(
    () => [
      { id: 'revision', header: 'Revision', accessorFn: ({ id }) => id },
      {
        id: 'status',
        header: 'Status',
        accessorFn: ({ status }) => status,
        cell: ({ row: { original } }) => (
          <>
            <Tag type={TAGS[original.status]}>{original.status}</Tag>
            {original.failure_reason !== undefined && <InertText text={original.failure_reason} maxLength={300} />}
          </>
        ),
      },
      {
        id: 'created',
        header: 'Created',
        accessorFn: ({ created_at }) => created_at,
        cell: ({ row }) => new Date(row.original.created_at).toLocaleString(),
      },
      {
        id: 'by',
        header: 'By',
        accessorFn: ({ actor, origin }) => actor ?? origin,
        cell: ({ row: { original } }) => (
          <InertText text={original.actor ?? (original.origin === 'api' ? 'API' : 'Bootstrap file')} />
        ),
      },
      actionsColumn(
        (row) => ({
          Compare: () => setCompared(row.id),
          ...(row.status === 'superseded' && { Activate: () => rollBack(row.id) }),
        }),
        'administer',
      ),
    ],
    [rollBack],
  );
  return (
    <>
      <QueryTable
        query={revisions}
        label="Revisions"
        rows={revisions.data}
        all={revisions.data?.length}
        columns={columns}
        rowKey={({ id }) => String(id)}
        onOpen={({ id }) => setCompared(id)}
        empty={
          <EmptyState
            title="No revisions"
            text="Each change of the evaluators is stored as a revision."
            action={
              <Allowed right="administer">
                <Button href={routeTo('/evaluators', { new: 'true' })}>Add the first evaluator</Button>
              </Allowed>
            }
          />
        }
      />
      {compared !== undefined && <Comparison id={compared} onClose={() => setCompared(undefined)} />}
    </>
  );
}

/** A revision beside the active one. */
function Comparison({ id, onClose }: { readonly id: number; readonly onClose: () => void }) {
  const { data: active } = useEvaluatorSet();
  const { data, error } = useApiQuery(['evaluators', 'revision', String(id)], (client, signal) =>
    unwrap(client.GET('/api/v1/evaluators/revisions/{id}', { params: { path: { id } }, signal })),
  );
  return (
    <DetailsModal heading={`Revision ${id}`} label="Difference to the active revision" onClose={onClose}>
      {error && <ErrorNotice title="The revision could not be loaded" error={error} />}
      {!error && (!data || !active) && <SkeletonText paragraph lineCount={5} />}
      {data && active && (
        <DiffView
          before={{ label: `Active revision ${active.revision}`, text: JSON.stringify(active.evaluators, null, 2) }}
          after={{ label: `Revision ${id}`, text: JSON.stringify(data.evaluators, null, 2) }}
        />
      )}
    </DetailsModal>
  );
}

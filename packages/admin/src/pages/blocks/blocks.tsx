import { Misuse } from '@carbon/icons-react';
import { Button } from '@carbon/react';
import { blockInput } from '@sluice/contract';
import { type components, unwrap } from '@sluice/contract/client';
import { useMemo, useState } from 'react';
import { useApiQuery, useChange } from '../../api/queries.ts';
import { Allowed } from '../../ui/allowed.tsx';
import type { Column } from '../../ui/data-table.tsx';
import { TextInput } from '../../ui/fields.tsx';
import { useForm } from '../../ui/form.ts';
import { InertText } from '../../ui/inert-text.tsx';
import { FormModal } from '../../ui/modal.tsx';
import { EmptyState } from '../../ui/notices.tsx';
import { PageFrame } from '../../ui/page-frame.tsx';
import { QueryTable } from '../../ui/query-table.tsx';
import { useParameter } from '../../ui/route.ts';
import { actionsColumn } from '../../ui/row-actions.tsx';
import { useUndoable } from '../../ui/undoable.ts';

type Block = components['schemas']['Block'];
type BlockInput = components['schemas']['BlockInput'];
/** What is blocked, and how. */
type Blocking = BlockInput & { readonly id: string };

function textColumn(id: 'id' | 'reason' | 'by', header: string): Column<Block> {
  const textOf = (block: Block): string => block[id] ?? '';
  return {
    id,
    header,
    accessorFn: textOf,
    cell: ({ row }) => <InertText text={textOf(row.original)} maxLength={500} />,
  };
}

/** `#/blocks`: principals, keys and forwards that are blocked. */
export default function Blocks() {
  const change = useUndoable();
  const blocks = useApiQuery(['other', 'blocks'], (client, signal) => unwrap(client.GET('/api/v1/blocks', { signal })));
  const [added, setAdded] = useParameter('new', { push: true });
  const { data, refetch } = blocks;
  const block = useChange({
    changes: ['forwards', 'tools', 'resources', 'prompts'],
    run: (client, { id, ...body }: Blocking) =>
      unwrap(client.PUT('/api/v1/blocks/{id}', { params: { path: { id } }, body })),
  });
  const unblock = useChange({
    changes: ['forwards', 'tools', 'resources', 'prompts'],
    run: (client, id: string) => unwrap(client.DELETE('/api/v1/blocks/{id}', { params: { path: { id } } })),
  });
  const columns = useMemo<readonly Column<Block>[]>(
    () => [
      textColumn('id', 'Principal, key or forward'),
      {
        id: 'since',
        header: 'Since',
        accessorFn: ({ since }) => since,
        cell: ({ row }) => new Date(row.original.since).toLocaleString(),
      },
      {
        id: 'until',
        header: 'Until',
        accessorFn: ({ until }) => until ?? '',
        cell: ({ row: { original } }) =>
          original.until === undefined ? '–' : new Date(original.until).toLocaleString(),
      },
      textColumn('reason', 'Reason'),
      textColumn('by', 'By'),
      actionsColumn(({ id, reason, until }) => ({
        Unblock: async () => {
          const again = { id, ...(reason !== undefined && { reason }), ...remaining(until) };
          await change({
            run: () => unblock(id),
            done: `${id} unblocked`,
            failed: `${id} was not unblocked`,
            undo: { run: () => block(again), failed: `${id} was not blocked again` },
          });
          await refetch();
        },
      })),
    ],
    [block, unblock, change, refetch],
  );
  const add = (
    <Allowed right="change_registry">
      <Button size="md" kind="danger" renderIcon={Misuse} onClick={() => setAdded('true')}>
        Block
      </Button>
    </Allowed>
  );
  return (
    <PageFrame
      title="Blocks"
      description="Everything that a blocked principal or key requests is rejected, and a blocked forward is unknown to agents."
      actions={add}
    >
      <QueryTable
        query={blocks}
        label="Blocks"
        rows={data}
        all={data?.length}
        columns={columns}
        rowKey={({ id }) => id}
        empty={
          <EmptyState
            title="No blocks"
            text="Block a principal, a key or a forward at once: what is open ends, on all replicas."
            action={<Button onClick={() => void refetch()}>Check again</Button>}
          />
        }
      />
      {added !== '' && (
        <BlockForm
          onBlock={async (blocking) => {
            await block(blocking);
            await refetch();
          }}
          onClose={() => setAdded('')}
        />
      )}
    </PageFrame>
  );
}

/** The rest of the time of a block. */
function remaining(until: string | undefined): { for?: string } {
  return until === undefined ? {} : { for: `${Math.max(1, Math.ceil((Date.parse(until) - Date.now()) / 60_000))}m` };
}

interface BlockFormProps {
  readonly onBlock: (blocking: Blocking) => Promise<void>;
  readonly onClose: () => void;
}

function BlockForm({ onBlock, onClose }: BlockFormProps) {
  const [id, setId] = useState('');
  const form = useForm({ for: '', reason: '' }, blockInput, ({ for: duration, reason }) => ({
    ...(duration.trim() !== '' && { for: duration.trim() }),
    ...(reason.trim() !== '' && { reason: reason.trim() }),
  }));
  return (
    <FormModal
      heading="Block"
      submit="Block"
      size="sm"
      body={id.trim() === '' ? undefined : form.body}
      onClose={onClose}
      onSubmit={(body) => onBlock({ ...body, id: id.trim() })}
    >
      <TextInput
        id="block-id"
        labelText="Principal, key or forward"
        helperText="Its id, such as corp/ann, keys/nightly-report or forward:crm"
        autoComplete="off"
        data-modal-primary-focus
        value={id}
        onChange={(event) => setId(event.target.value)}
      />
      <TextInput
        id="block-for"
        labelText="For how long (optional)"
        helperText="Such as 30m, 1h or 7d; without it, until it is unblocked"
        autoComplete="off"
        {...form.text('for')}
      />
      <TextInput id="block-reason" labelText="Reason (optional)" autoComplete="off" {...form.text('reason')} />
    </FormModal>
  );
}

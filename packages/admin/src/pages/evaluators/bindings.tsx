import { Button } from '@carbon/react';
import { bindingInput, DEFAULT_NAMESPACE } from '@sluice/contract';
import { unwrap } from '@sluice/contract/client';
import { useCallback, useMemo } from 'react';
import { useApiQuery, useChange } from '../../api/queries.ts';
import { Allowed } from '../../ui/allowed.tsx';
import type { Column } from '../../ui/data-table.tsx';
import { NamespaceField, TextInput } from '../../ui/fields.tsx';
import { useForm } from '../../ui/form.ts';
import { InertText } from '../../ui/inert-text.tsx';
import { FormModal } from '../../ui/modal.tsx';
import { EmptyState } from '../../ui/notices.tsx';
import { QueryTable } from '../../ui/query-table.tsx';
import { useParameter } from '../../ui/route.ts';
import { actionsColumn } from '../../ui/row-actions.tsx';
import { useUndoable } from '../../ui/undoable.ts';

/** A namespace whose requests belong to a conversation. */
interface Binding {
  readonly namespace: string;
  readonly conversationId: string;
}

/** The conversation ids of namespaces, which evaluators get with requests that have none. */
export function Bindings() {
  const change = useUndoable();
  const bindings = useApiQuery(['evaluators', 'bindings'], (client, signal) =>
    unwrap(client.GET('/api/v1/evaluators/namespaces', { signal })),
  );
  const [bound, setBound] = useParameter('bind', { push: true });
  const { data } = bindings;
  const bind = useChange({
    changes: ['evaluators'],
    run: (client, { namespace, conversationId }: Binding) =>
      unwrap(
        client.PUT('/api/v1/evaluators/namespaces/{namespace}', {
          params: { path: { namespace } },
          body: { conversation_id: conversationId },
        }),
      ),
  });
  const deleteBinding = useChange({
    changes: ['evaluators'],
    run: (client, { namespace }: Binding) =>
      unwrap(client.DELETE('/api/v1/evaluators/namespaces/{namespace}', { params: { path: { namespace } } })),
  });
  const unbind = useCallback(
    (binding: Binding) =>
      change({
        run: () => deleteBinding(binding),
        done: `${binding.namespace} unbound`,
        failed: `${binding.namespace} was not unbound`,
        undo: { run: () => bind(binding), failed: 'The binding was not restored' },
      }),
    [change, deleteBinding, bind],
  );
  const rows = useMemo(
    () => data && Object.entries(data).map(([namespace, conversationId]) => ({ namespace, conversationId })),
    [data],
  );
  const columns = useMemo<readonly Column<Binding>[]>(
    () => [
      { id: 'namespace', header: 'Namespace', accessorFn: ({ namespace }) => namespace },
      {
        id: 'conversation',
        header: 'Conversation',
        accessorFn: ({ conversationId }) => conversationId,
        cell: ({ row }) => <InertText text={row.original.conversationId} />,
      },
      actionsColumn((row) => ({ Delete: () => unbind(row) }), 'administer'),
    ],
    [unbind],
  );
  const add = (
    <Allowed right="administer">
      <Button kind="tertiary" size="md" onClick={() => setBound('true')}>
        Bind a namespace
      </Button>
    </Allowed>
  );
  return (
    <>
      <p>
        A binding gives the requests of a namespace a conversation, unless they name one, so that evaluators see its
        history. It lasts until the service stops.
      </p>
      {rows && rows.length > 0 && add}
      <QueryTable
        query={bindings}
        label="Bindings"
        rows={rows}
        all={rows?.length}
        columns={columns}
        rowKey={({ namespace }) => namespace}
        empty={<EmptyState title="No bindings" text="Requests keep the conversation that they name." action={add} />}
      />
      {bound !== '' && <BindingForm onBind={bind} onClose={() => setBound('')} />}
    </>
  );
}

interface BindingFormProps {
  readonly onBind: (binding: Binding) => Promise<void>;
  readonly onClose: () => void;
}

function BindingForm({ onBind, onClose }: BindingFormProps) {
  const form = useForm({ namespace: DEFAULT_NAMESPACE, conversation_id: '' }, bindingInput, (draft) => draft);
  const { namespace } = form.draft;
  return (
    <FormModal
      heading="Bind a namespace"
      submit="Bind"
      size="sm"
      body={namespace.trim() === '' ? undefined : form.body}
      onClose={onClose}
      onSubmit={(body) => onBind({ namespace: namespace.trim(), conversationId: body.conversation_id })}
    >
      <NamespaceField id="binding-namespace" value={namespace} onChange={(value) => form.set('namespace', value)} />
      <TextInput
        id="binding-conversation"
        labelText="Conversation id"
        autoComplete="off"
        data-modal-primary-focus
        {...form.text('conversation_id')}
      />
    </FormModal>
  );
}

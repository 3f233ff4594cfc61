import { InlineNotification } from '@carbon/react';
import { type NamespaceInput, namespaceInput } from '@sluice/contract';
import { unwrap } from '@sluice/contract/client';
import { useApi } from '../../api/api.ts';
import { type Namespace, useChange } from '../../api/queries.ts';
import { ConflictView, useConflicts } from '../../ui/conflict.tsx';
import { LabelsField, TextInput } from '../../ui/fields.tsx';
import { formatLabels, parseLabels, useForm } from '../../ui/form.ts';
import { FormModal } from '../../ui/modal.tsx';
import { useToasts } from '../../ui/toasts.tsx';

interface NamespaceFormProps {
  /** The namespace to change; a new one if it is missing. */
  readonly namespace?: Namespace;
  readonly onClose: () => void;
}

/** Creates a namespace or changes its labels: namespaces cannot be renamed. */
export function NamespaceForm({ namespace, onClose }: NamespaceFormProps) {
  const toasts = useToasts();
  const { client } = useApi();
  const form = useForm(
    { name: namespace?.name ?? '', labels: formatLabels(namespace?.labels ?? {}) },
    namespaceInput,
    ({ name, labels }) => ({ name, labels: parseLabels(labels) }),
  );
  const save = useChange({
    changes: ['namespaces'],
    run: (_client, body: NamespaceInput) =>
      namespace
        ? unwrap(client.PUT('/api/v1/namespaces/{name}', { params: { path: { name: namespace.name } }, body }))
        : unwrap(client.POST('/api/v1/namespaces', { body })),
  });
  const name = form.draft.name.trim();
  const { conflict, resolve } = useConflicts(namespace, () =>
    unwrap(client.GET('/api/v1/namespaces/{name}', { params: { path: { name } } })),
  );
  return (
    <FormModal
      heading={namespace ? `Edit ${namespace.name}` : 'Create Namespace'}
      submit={namespace ? 'Save' : 'Create'}
      size="sm"
      body={form.body}
      onClose={onClose}
      onSubmit={async (body) => {
        await save(await resolve(body));
        toasts.show({ kind: 'success', title: `Namespace ${name} ${namespace ? 'changed' : 'created'}` });
      }}
    >
      <TextInput
        id="namespace-name"
        labelText="Name"
        helperText={name === '' ? 'Lowercase letters, digits and hyphens' : `MCP endpoint: /${name}/mcp`}
        readOnly={namespace !== undefined}
        autoComplete="off"
        data-modal-primary-focus
        {...form.text('name')}
      />
      {name === 'public' && (
        <InlineNotification
          kind="warning"
          lowContrast
          hideCloseButton
          title="Anyone may be able to use this namespace"
          subtitle="The authenticating proxy lets requests to /public/ pass without a login."
        />
      )}
      <LabelsField id="namespace-labels" field={form.text('labels')} />
      {conflict && <ConflictView subject="namespace" {...conflict} typed={form.body} />}
    </FormModal>
  );
}

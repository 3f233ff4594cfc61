import { Accordion, AccordionItem, TextArea } from '@carbon/react';
import { DEFAULT_NAMESPACE, type ResourceUpdate, resourceInput, resourceUpdate } from '@sluice/contract';
import { type Resource, useChange, useServices } from '../../api/queries.ts';
import { ConflictView } from '../../ui/conflict.tsx';
import { ChoiceField, LabelsField, NamespaceField, TextInput } from '../../ui/fields.tsx';
import { formatLabels, parseLabels, useForm } from '../../ui/form.ts';
import { FormModal } from '../../ui/modal.tsx';
import { useToasts } from '../../ui/toasts.tsx';
import { type EntryFormProps, useEntryConflicts } from './entries-page.tsx';
import { RESOURCES, saveResource, writable } from './entry-kinds.ts';

/** What is typed; members are named as in the body. */
interface ResourceDraft {
  readonly name: string;
  readonly location: string;
  readonly type: string;
  readonly description: string;
  readonly mimeType: string;
  readonly namespace: string;
  readonly labels: string;
  readonly params: string;
}

/** Creates a resource, or changes one: what differs from the upstream of a discovered resource becomes an override. */
export function ResourceForm({ entry, onClose }: EntryFormProps<Resource>) {
  const toasts = useToasts();
  const { data: services = [] } = useServices();
  const isDiscovered = entry?.forward !== undefined;
  const form = useForm(toDraft(entry), entry ? resourceUpdate : resourceInput, (draft) => toBody(draft, entry));
  const { draft, text, set } = form;
  const save = useChange({
    changes: ['resources', 'namespaces'],
    run: (client, body: ResourceUpdate) => saveResource(client, entry, body),
  });
  const { conflict, resolve } = useEntryConflicts(RESOURCES, entry);
  return (
    <FormModal
      heading={entry ? `Edit ${entry.name}` : 'Create a Resource'}
      submit={entry ? 'Save' : 'Create'}
      body={form.body}
      onClose={onClose}
      onSubmit={async (body) => {
        await save(await resolve(body));
        toasts.show({ kind: 'success', title: `Resource ${draft.name} ${entry ? 'changed' : 'created'}` });
      }}
    >
      <div className="form-row">
        <TextInput id="resource-name" labelText="Name" autoComplete="off" data-modal-primary-focus {...text('name')} />
        <NamespaceField
          id="resource-namespace"
          value={draft.namespace}
          onChange={(namespace) => set('namespace', namespace)}
          error={form.error('namespace')}
        />
      </div>
      <TextInput
        id="resource-location"
        labelText="URI"
        helperText="Or a URI template with the label service.is_template=true"
        readOnly={isDiscovered}
        {...text('location')}
      />
      <TextArea id="resource-description" labelText="Description" rows={3} {...text('description')} />
      <div className="form-row">
        {isDiscovered ? (
          <TextInput id="resource-type" labelText="Type" readOnly value={draft.type} />
        ) : (
          <ChoiceField
            id="resource-type"
            label="Type"
            items={[...new Set(services.map(({ name }) => name))]}
            value={draft.type}
            onChange={(type) => set('type', type)}
            helperText="Name of a capability service"
          />
        )}
        <TextInput id="resource-mime-type" labelText="MIME type" placeholder="text/plain" {...text('mimeType')} />
      </div>
      <Accordion>
        <AccordionItem title="Labels and parameters">
          <div className="form-row">
            <LabelsField id="resource-labels" field={text('labels')} />
            <TextArea
              id="resource-params"
              labelText="Parameters for the capability service"
              helperText="One per line: name=value"
              rows={3}
              {...text('params')}
            />
          </div>
        </AccordionItem>
      </Accordion>
      {conflict && <ConflictView subject="resource" {...conflict} typed={form.body} />}
    </FormModal>
  );
}

function toDraft(resource: Resource | undefined): ResourceDraft {
  const params = resource?.params ?? [];
  return {
    name: resource?.name ?? '',
    location: resource?.location ?? '',
    type: resource?.type ?? '',
    description: resource?.description ?? '',
    mimeType: resource?.mimeType ?? '',
    namespace: resource?.namespace ?? DEFAULT_NAMESPACE,
    labels: formatLabels(resource?.labels ?? {}),
    params: params.map(({ name, value }) => `${name}=${value}`).join('\n'),
  };
}

/** Members that the form does not have are kept. */
function toBody({ labels, params, ...draft }: ResourceDraft, before: Resource | undefined): object {
  const { params: _params, ...kept } = before ? writable(before) : {};
  const pairs = Object.entries(parseLabels(params)).map(([name, value]) => ({ name, value }));
  return { ...kept, ...draft, labels: parseLabels(labels), ...(pairs.length > 0 && { params: pairs }) };
}

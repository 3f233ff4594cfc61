import { Select, SelectItem } from '@carbon/react';
import { serviceInput, serviceType } from '@sluice/contract';
import { unwrap } from '@sluice/contract/client';
import { useApi } from '../../api/api.ts';
import { type Service, useChange } from '../../api/queries.ts';
import { ConflictView, useConflicts } from '../../ui/conflict.tsx';
import { LabelsField, TextInput } from '../../ui/fields.tsx';
import { formatLabels, parseLabels, useForm } from '../../ui/form.ts';
import { FormModal } from '../../ui/modal.tsx';
import { useToasts } from '../../ui/toasts.tsx';

interface ServiceFormProps {
  /** The entry to change; a new one if it is missing. */
  readonly service?: Service;
  readonly onClose: () => void;
}

/** What is typed; members are named as in the body. */
interface ServiceDraft {
  readonly name: string;
  readonly address: string;
  readonly serviceType: Service['serviceType'];
  readonly serviceSubType: string;
  readonly languageName: string;
  readonly labels: string;
}

/** Adds a service entry, or changes its address and labels: name and type identify it. */
export function ServiceForm({ service, onClose }: ServiceFormProps) {
  const toasts = useToasts();
  const form = useForm(toDraft(service), serviceInput, toBody);
  const save = useChange({
    changes: ['services'],
    run: (_client, body: object) => unwrap(client.POST('/api/v1/services', { body })),
  });
  const { draft, text, set } = form;
  const { client } = useApi();
  const { conflict, resolve } = useConflicts(service && toInput(service), async () => {
    const services = await unwrap(client.GET('/api/v1/services'));
    const current = service && services.find((other) => keyOf(other) === keyOf(service));
    if (!current) throw new Error('It was deleted in the meantime. Add it as a new service.');
    return toInput(current);
  });
  const isEdited = service !== undefined;
  return (
    <FormModal
      heading={service ? `Edit ${service.name}` : 'Add a Service'}
      submit={service ? 'Save' : 'Add'}
      body={form.body}
      onClose={onClose}
      onSubmit={async () => {
        await save(await resolve(toBody(draft)));
        toasts.show({ kind: 'success', title: `Service ${draft.name} ${isEdited ? 'changed' : 'added'}` });
      }}
    >
      <div className="form-row">
        <TextInput
          id="service-name"
          labelText="Name"
          helperText="What tools name as their type"
          readOnly={isEdited}
          autoComplete="off"
          data-modal-primary-focus
          {...text('name')}
        />
        <TextInput id="service-address" labelText="Address" placeholder="localhost:50051" {...text('address')} />
      </div>
      <Select
        id="service-type"
        labelText="Type"
        value={draft.serviceType}
        disabled={isEdited}
        onChange={({ target }) => set('serviceType', serviceType.parse(target.value))}
      >
        {serviceType.options.map((type) => (
          <SelectItem key={type} value={type} text={type} />
        ))}
      </Select>
      {draft.serviceType === 'code-execution-engine' && (
        <div className="form-row">
          <TextInput id="service-engine" labelText="Engine" readOnly={isEdited} {...text('serviceSubType')} />
          <TextInput id="service-language" labelText="Language" readOnly={isEdited} {...text('languageName')} />
        </div>
      )}
      <LabelsField id="service-labels" field={text('labels')} />
      {conflict && <ConflictView subject="service" {...conflict} typed={form.body} />}
    </FormModal>
  );
}

/** Identifies a service entry: several may share a name. */
export function keyOf({ name, serviceType: type, serviceSubType, languageName }: Service): string {
  return JSON.stringify([name, type, serviceSubType, languageName]);
}

function toDraft(service: Service | undefined): ServiceDraft {
  return {
    name: service?.name ?? '',
    address: service?.address ?? '',
    serviceType: service?.serviceType ?? 'tool-invoker',
    serviceSubType: service?.serviceSubType ?? '',
    languageName: service?.languageName ?? '',
    labels: formatLabels(service?.labels ?? {}),
  };
}

function toBody({ name, address, serviceType: type, serviceSubType, languageName, labels }: ServiceDraft): object {
  return {
    name: name.trim(),
    address: address.trim(),
    serviceType: type,
    ...(serviceSubType !== '' && { serviceSubType }),
    ...(languageName !== '' && { languageName }),
    labels: parseLabels(labels),
  };
}

/** Returns the body that adds a deleted entry again. */
export function toInput({
  name,
  address,
  serviceType: type,
  serviceSubType,
  languageName,
  labels,
  id,
}: Service): object {
  return {
    name,
    address,
    serviceType: type,
    labels,
    ...(serviceSubType !== undefined && { serviceSubType }),
    ...(languageName !== undefined && { languageName }),
    ...(id !== undefined && { id }),
  };
}

import { TextArea } from '@carbon/react';
import { provisionInput } from '@sluice/contract';
import { type components, unwrap } from '@sluice/contract/client';
import { useRef, useState } from 'react';
import { useApi } from '../../api/api.ts';
import type { Service } from '../../api/queries.ts';
import { TextInput } from '../../ui/fields.tsx';
import { useForm } from '../../ui/form.ts';
import { InertText } from '../../ui/inert-text.tsx';
import { DetailsModal, FormModal } from '../../ui/modal.tsx';

type Provisioned = components['schemas']['Provisioned'];

const EMPTY = { name: '', configuration: '', secrets: '', uri: '' };

/** Stores configuration and secrets in a capability service, and shows what tools name to use them. */
export function ProvisionForm({ service, onClose }: { readonly service: Service; readonly onClose: () => void }) {
  const { client } = useApi();
  const form = useForm(EMPTY, provisionInput, (draft) => draft);
  const [result, setResult] = useState<Provisioned>();
  const isStored = useRef(false);
  if (result) return <ProvisionResult name={service.name} result={result} onClose={onClose} />;
  return (
    <FormModal
      heading={`Provision ${service.name}`}
      submit="Store"
      body={form.body}
      // The result replaces the form.
      onClose={() => {
        if (!isStored.current) onClose();
      }}
      onSubmit={async (body) => {
        const call = client.POST('/api/v1/services/{name}/provisions', {
          params: { path: { name: service.name } },
          body,
        });
        const stored = await unwrap(call);
        isStored.current = true;
        setResult(stored);
      }}
    >
      <TextInput
        id="provision-name"
        labelText="Name"
        autoComplete="off"
        data-modal-primary-focus
        {...form.text('name')}
      />
      <TextArea id="provision-configuration" labelText="Configuration" rows={4} {...form.text('configuration')} />
      <TextArea
        id="provision-secrets"
        labelText="Secrets"
        helperText="Sent to the capability service and not stored by Sluice"
        rows={3}
        autoComplete="off"
        {...form.text('secrets')}
      />
      <TextInput
        id="provision-uri"
        labelText="Target"
        helperText="Interpreted by the capability service"
        {...form.text('uri')}
      />
    </FormModal>
  );
}

function ProvisionResult(props: { readonly name: string; readonly result: Provisioned; readonly onClose: () => void }) {
  const { configurationUri, secretUri, properties } = props.result;
  return (
    <DetailsModal heading={`Provisioned ${props.name}`} size="md" onClose={props.onClose}>
      <p>Tools and resources use the stored values through these URIs:</p>
      <dl className="facts">
        <dt>Configuration URI</dt>
        <dd>
          <code>
            <InertText text={configurationUri} />
          </code>
        </dd>
        <dt>Secrets URI</dt>
        <dd>
          <code>
            <InertText text={secretUri} />
          </code>
        </dd>
        {Object.entries(properties).map(([name, { type, description, required }]) => (
          <div key={name} className="fact">
            <dt>
              <InertText text={name} />
            </dt>
            <dd>
              <InertText text={`${type}${required ? ', required' : ''}. ${description}`} />
            </dd>
          </div>
        ))}
      </dl>
    </DetailsModal>
  );
}

import { Accordion, AccordionItem, Checkbox, InlineNotification, TextArea } from '@carbon/react';
import { DEFAULT_NAMESPACE, type ForwardInput, forwardInput, forwardOrigin } from '@sluice/contract';
import { useState } from 'react';
import { useApi } from '../../api/api.ts';
import { type Forward, useChange } from '../../api/queries.ts';
import { ConflictView } from '../../ui/conflict.tsx';
import { LabelsField, NamespaceField, TextInput } from '../../ui/fields.tsx';
import { formatLabels, parseLabels, useForm } from '../../ui/form.ts';
import { FormModal } from '../../ui/modal.tsx';
import { type Toasts, useToasts } from '../../ui/toasts.tsx';
import { type ExposeDraft, ExposeFields, parseExpose, toExposeDraft } from './expose-fields.tsx';
import { changeForward, createForward, ForwardConflictError, isStored, type ReadForward } from './forward-changes.ts';
import { AFFECTED } from './refresh-forward.ts';

interface ForwardFormProps {
  /** The forward to change; a new one if it is missing. */
  readonly edited?: ReadForward;
  readonly onClose: () => void;
}

/** What is typed. */
interface ForwardDraft {
  readonly name: string;
  readonly address: string;
  readonly namespace: string;
  readonly prefix: string;
  readonly labels: string;
  readonly headers: string;
  readonly proxy: string;
  readonly compression: boolean;
  readonly expose: ExposeDraft;
}

/** Members that a form changes. */
const MEMBERS = ['address', 'namespace', 'prefix', 'labels', 'headers', 'expose', 'proxy', 'compression'] as const;

/** Time after which the dialog checks whether only the discovery is missing, which may take long. */
const PATIENCE_MS = 2_000;

/** Adds a forward, or changes one; overrides and marks of its entries are kept. */
export function ForwardForm({ edited, onClose }: ForwardFormProps) {
  const toasts = useToasts();
  const { client } = useApi();
  const forward = edited?.forward;
  const form = useForm(toDraft(forward), forwardInput, toBody);
  /** The forward after somebody else has changed it. */
  const [current, setCurrent] = useState<ReadForward>();
  const save = useChange({
    changes: AFFECTED,
    run: (_client, body: ForwardInput) =>
      edited ? changeForward(client, edited.forward, (current ?? edited).etag, body) : createForward(client, body),
  });
  const { draft, text } = form;
  const movesHeaders =
    forward?.headers !== undefined && forwardOrigin(forward.address) !== forwardOrigin(draft.address);
  return (
    <FormModal
      heading={forward ? `Edit ${forward.name}` : 'Add a Forward'}
      submit={forward ? 'Save' : 'Add'}
      body={form.body}
      onClose={onClose}
      onSubmit={async (body) => {
        try {
          const done = `Forward ${body.name} ${forward ? 'changed' : 'added'}`;
          await untilStored(save(body), () => isStored(client, body), body.name, done, toasts);
        } catch (error) {
          if (error instanceof ForwardConflictError) setCurrent(error.current);
          throw error;
        }
      }}
    >
      <div className="form-row">
        <TextInput
          id="forward-name"
          labelText="Name"
          readOnly={forward !== undefined}
          autoComplete="off"
          data-modal-primary-focus
          {...text('name')}
        />
        <NamespaceField
          id="forward-namespace"
          value={draft.namespace}
          onChange={(namespace) => form.set('namespace', namespace)}
          error={form.error('namespace')}
        />
      </div>
      <TextInput
        id="forward-address"
        labelText="Address"
        placeholder="http://localhost:3000/mcp"
        autoComplete="off"
        {...text('address')}
      />
      {movesHeaders && (
        <InlineNotification
          kind="warning"
          lowContrast
          hideCloseButton
          title="The headers will be sent to another server"
          subtitle="They may contain credentials. Remove them below if the new address must not get them."
        />
      )}
      <Accordion>
        <AccordionItem title="Names and labels">
          <div className="form-row">
            <TextInput
              id="forward-prefix"
              labelText="Prefix"
              helperText="In front of the names of discovered tools and prompts"
              {...text('prefix')}
            />
            <LabelsField id="forward-labels" field={text('labels')} />
          </div>
        </AccordionItem>
        <AccordionItem title="Headers">
          <TextArea
            id="forward-headers"
            labelText="Headers of all requests to the server"
            helperText="One per line: Authorization: Bearer ${env:SERVICE_SECRET_NAME}, or ${file:name}"
            rows={3}
            {...text('headers')}
          />
        </AccordionItem>
        <AccordionItem title="Connection">
          <TextInput
            id="forward-proxy"
            labelText="Proxy"
            helperText="URL of an HTTP proxy, or none; by default that of the service's environment"
            autoComplete="off"
            {...text('proxy')}
          />
          <Checkbox
            id="forward-compression"
            labelText="Let the server compress its responses, for slow connections"
            checked={draft.compression}
            onChange={(_event, { checked }) => form.set('compression', checked)}
          />
        </AccordionItem>
        <AccordionItem title="Exposed entries">
          <ExposeFields
            draft={draft.expose}
            onChange={(expose) => form.set('expose', expose)}
            {...(forward && { forward })}
            error={form.error('expose')}
          />
        </AccordionItem>
      </Accordion>
      {forward && current && (
        <ConflictView
          subject="forward"
          before={forward}
          current={current.forward}
          typed={form.body}
          members={MEMBERS}
        />
      )}
    </FormModal>
  );
}

/**
 * Waits until the forward is saved, or at least stored: then nothing that was typed can be lost, and a toast reports the end of
 * the discovery. Rejects if it is not.
 */
async function untilStored(
  saved: Promise<void>,
  checkStored: () => Promise<boolean>,
  name: string,
  done: string,
  toasts: Toasts,
): Promise<void> {
  const report = () => toasts.show({ kind: 'success', title: done });
  do {
    const late = new Promise<'late'>((resolve) => setTimeout(() => resolve('late'), PATIENCE_MS));
    if ((await Promise.race([saved, late])) !== 'late') return report();
  } while (!(await checkStored()));
  toasts.show({ kind: 'info', title: `Discovering ${name}`, text: 'The server takes long to answer.' });
  saved.then(report, (error) => toasts.fail(`The discovery of ${name} has no result`, error));
}

function toDraft(forward: Forward | undefined): ForwardDraft {
  return {
    name: forward?.name ?? '',
    address: forward?.address ?? '',
    namespace: forward?.namespace ?? DEFAULT_NAMESPACE,
    prefix: forward?.prefix ?? '',
    labels: formatLabels(forward?.labels ?? {}),
    headers: Object.entries(forward?.headers ?? {})
      .map(([name, value]) => `${name}: ${value}`)
      .join('\n'),
    proxy: forward?.proxy ?? '',
    compression: forward?.compression ?? false,
    expose: toExposeDraft(forward?.expose),
  };
}

function toBody({
  name,
  address,
  namespace,
  prefix,
  labels,
  headers,
  proxy,
  compression,
  expose,
}: ForwardDraft): object {
  const rules = parseExpose(expose);
  const lines = headers.split('\n').filter((line) => line.trim() !== '');
  const fields = lines.map(
    (line) =>
      /^([^:]*):?(.*)$/
        .exec(line)
        ?.slice(1)
        .map((part) => part.trim()) ?? [],
  );
  return {
    name: name.trim(),
    address: address.trim(),
    ...(namespace.trim() !== '' && { namespace: namespace.trim() }),
    labels: parseLabels(labels),
    ...(prefix.trim() !== '' && { prefix: prefix.trim() }),
    ...(fields.length > 0 && { headers: Object.fromEntries(fields.map(([field = '', value = '']) => [field, value])) }),
    ...(Object.keys(rules).length > 0 && { expose: rules }),
    ...(proxy.trim() !== '' && { proxy: proxy.trim() }),
    ...(compression && { compression }),
  };
}

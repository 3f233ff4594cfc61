import { Accordion, AccordionItem, InlineNotification, TextArea, TextInput } from '@carbon/react';
import { DEFAULT_NAMESPACE, type ForwardInput, forwardInput } from '@sluice/contract';
import { useState } from 'react';
import { type Forward, useChange } from '../../api/queries.ts';
import { LabelsField, NamespaceField } from '../../ui/fields.tsx';
import { formatLabels, parseLabels, useForm } from '../../ui/form.ts';
import { FormModal } from '../../ui/modal.tsx';
import { type Toasts, useToasts } from '../../ui/toasts.tsx';
import { type ExposeDraft, ExposeFields, parseExpose, toExposeDraft } from './expose-fields.tsx';
import { changeForward, createForward, ForwardConflictError, type ReadForward } from './forward-changes.ts';
import { ForwardConflict } from './forward-conflict.tsx';
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
  readonly expose: ExposeDraft;
}

/** Time that the dialog waits for discovery, which may take longer than an operator wants to look at it. */
const PATIENCE_MS = 2_000;

/** Adds a forward, or changes one; overrides and marks of its entries are kept. */
export function ForwardForm({ edited, onClose }: ForwardFormProps) {
  const toasts = useToasts();
  const forward = edited?.forward;
  const form = useForm(toDraft(forward), forwardInput, toBody);
  /** The forward after somebody else has changed it. */
  const [current, setCurrent] = useState<ReadForward>();
  const save = useChange({
    changes: AFFECTED,
    run: (client, body: ForwardInput) =>
      edited ? changeForward(client, edited.forward, (current ?? edited).etag, body) : createForward(client, body),
  });
  const { draft, text } = form;
  const movesHeaders = forward?.headers !== undefined && originOf(forward.address) !== originOf(draft.address);
  return (
    <FormModal
      heading={forward ? `Edit ${forward.name}` : 'Add a Forward'}
      submit={forward ? 'Save' : 'Add'}
      body={form.body}
      onClose={onClose}
      onSubmit={async (body) => {
        try {
          await settledSoon(save(body), body.name, forward !== undefined, toasts);
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
        <AccordionItem title="Exposed entries">
          <ExposeFields
            draft={draft.expose}
            onChange={(expose) => form.set('expose', expose)}
            {...(forward && { forward })}
            error={form.error('expose')}
          />
        </AccordionItem>
      </Accordion>
      {forward && current && <ForwardConflict before={forward} current={current.forward} typed={form.body} />}
    </FormModal>
  );
}

/** Waits a short time for the discovery. If it takes longer, a toast reports the result. */
async function settledSoon(saved: Promise<void>, name: string, isChange: boolean, toasts: Toasts): Promise<void> {
  const done = `Forward ${name} ${isChange ? 'changed' : 'added'}`;
  const late = new Promise<'late'>((resolve) => setTimeout(() => resolve('late'), PATIENCE_MS));
  const first = await Promise.race([saved, late]);
  if (first !== 'late') return toasts.show({ kind: 'success', title: done });
  toasts.show({ kind: 'info', title: `Discovering ${name}`, text: 'The server takes long to answer.' });
  saved.then(
    () => toasts.show({ kind: 'success', title: done }),
    (error) => toasts.fail(`Forward ${name} was not ${isChange ? 'changed' : 'added'}`, error),
  );
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
    expose: toExposeDraft(forward?.expose),
  };
}

function toBody({ name, address, namespace, prefix, labels, headers, expose }: ForwardDraft): object {
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
  };
}

function originOf(address: string): string {
  return URL.parse(address)?.origin ?? address;
}

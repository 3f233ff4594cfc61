import { TextArea } from '@carbon/react';
import { DEFAULT_NAMESPACE, type PromptUpdate, promptInput, promptUpdate } from '@sluice/contract';
import { type Prompt, useChange } from '../../api/queries.ts';
import { ConflictView } from '../../ui/conflict.tsx';
import { LabelsField, NamespaceField, TextInput } from '../../ui/fields.tsx';
import { formatLabels, parseLabels, useForm } from '../../ui/form.ts';
import { JsonEditor, tryParse } from '../../ui/json-editor.tsx';
import { FormModal } from '../../ui/modal.tsx';
import { useToasts } from '../../ui/toasts.tsx';
import { type EntryFormProps, useEntryConflicts } from './entries-page.tsx';
import { PROMPTS, savePrompt, writable } from './entry-kinds.ts';

/** What is typed; members are named as in the body. */
interface PromptDraft {
  readonly name: string;
  readonly description: string;
  readonly namespace: string;
  readonly labels: string;
  readonly arguments: string;
  readonly messages: string;
}

const EXAMPLE_ARGUMENTS = [{ name: 'topic', description: 'What to write about', required: true }];
const EXAMPLE_MESSAGES = [{ role: 'user', content: 'Write about {topic}.' }];

/** Creates a prompt, or changes one: what differs from the upstream of a discovered prompt becomes an override. */
export function PromptForm({ entry, onClose }: EntryFormProps<Prompt>) {
  const toasts = useToasts();
  const form = useForm(toDraft(entry), entry ? promptUpdate : promptInput, (draft) => toBody(draft, entry));
  const { draft, text, set } = form;
  const save = useChange({
    changes: ['prompts', 'namespaces'],
    run: (client, body: PromptUpdate) => savePrompt(client, entry, body),
  });
  const { conflict, resolve } = useEntryConflicts(PROMPTS, entry);
  return (
    <FormModal
      heading={entry ? `Edit ${entry.name}` : 'Create a Prompt'}
      submit={entry ? 'Save' : 'Create'}
      body={form.body}
      onClose={onClose}
      onSubmit={async (body) => {
        await save(await resolve(body));
        toasts.show({ kind: 'success', title: `Prompt ${draft.name} ${entry ? 'changed' : 'created'}` });
      }}
    >
      <div className="form-row">
        <TextInput id="prompt-name" labelText="Name" autoComplete="off" data-modal-primary-focus {...text('name')} />
        <NamespaceField
          id="prompt-namespace"
          value={draft.namespace}
          onChange={(namespace) => set('namespace', namespace)}
          error={form.error('namespace')}
        />
      </div>
      <TextArea id="prompt-description" labelText="Description" rows={2} {...text('description')} />
      {entry?.forward === undefined && (
        <>
          <JsonEditor
            id="prompt-arguments"
            label="Arguments"
            value={draft.arguments}
            onChange={(value) => set('arguments', value)}
            helperText="Name, description, and whether it is required"
            error={form.error('arguments')}
          />
          <JsonEditor
            id="prompt-messages"
            label="Messages"
            value={draft.messages}
            onChange={(value) => set('messages', value)}
            helperText="{name} in a content is replaced by the argument of that name"
            error={form.error('messages')}
          />
        </>
      )}
      <LabelsField id="prompt-labels" field={text('labels')} />
      {conflict && <ConflictView subject="prompt" {...conflict} typed={form.body} />}
    </FormModal>
  );
}

function toDraft(prompt: Prompt | undefined): PromptDraft {
  return {
    name: prompt?.name ?? '',
    description: prompt?.description ?? '',
    namespace: prompt?.namespace ?? DEFAULT_NAMESPACE,
    labels: formatLabels(prompt?.labels ?? {}),
    arguments: JSON.stringify(prompt?.arguments ?? EXAMPLE_ARGUMENTS, null, 2),
    messages: JSON.stringify(prompt?.messages ?? EXAMPLE_MESSAGES, null, 2),
  };
}

/** Members that the form does not have are kept. */
function toBody(
  { labels, arguments: parameters, messages, ...draft }: PromptDraft,
  before: Prompt | undefined,
): object {
  return {
    ...(before && writable(before)),
    ...draft,
    labels: parseLabels(labels),
    arguments: tryParse(parameters) ?? null,
    messages: tryParse(messages) ?? null,
  };
}

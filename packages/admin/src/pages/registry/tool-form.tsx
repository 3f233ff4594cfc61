import { Accordion, AccordionItem, TextArea } from '@carbon/react';
import { DEFAULT_NAMESPACE, type ToolUpdate, toolInput, toolUpdate } from '@sluice/contract';
import { type Tool, useChange, useServices } from '../../api/queries.ts';
import { ConflictView } from '../../ui/conflict.tsx';
import { ChoiceField, LabelsField, NamespaceField, TextInput } from '../../ui/fields.tsx';
import { formatLabels, parseLabels, useForm } from '../../ui/form.ts';
import { JsonEditor, tryParse } from '../../ui/json-editor.tsx';
import { FormModal } from '../../ui/modal.tsx';
import { useToasts } from '../../ui/toasts.tsx';
import { type EntryFormProps, useEntryConflicts } from './entries-page.tsx';
import { saveTool, TOOLS, writable } from './entry-kinds.ts';

/** What is typed; members are named as in the body. */
interface ToolDraft {
  readonly name: string;
  readonly description: string;
  readonly uri: string;
  readonly toolType: string;
  readonly namespace: string;
  readonly labels: string;
  readonly input_schema: string;
  readonly configurationURI: string;
  readonly secretsURI: string;
}

/** Creates a tool, or changes one: what differs from the upstream of a discovered tool becomes an override. */
export function ToolForm({ entry, onClose }: EntryFormProps<Tool>) {
  const toasts = useToasts();
  const { data: services = [] } = useServices();
  const isDiscovered = entry?.forward !== undefined;
  const form = useForm(toDraft(entry), entry ? toolUpdate : toolInput, (draft) => toBody(draft, entry));
  const { draft, text, set } = form;
  const save = useChange({
    changes: ['tools', 'namespaces'],
    run: (client, body: ToolUpdate) => saveTool(client, entry, body),
  });
  const { conflict, resolve } = useEntryConflicts(TOOLS, entry);
  return (
    <FormModal
      heading={entry ? `Edit ${entry.name}` : 'Create a Tool'}
      submit={entry ? 'Save' : 'Create'}
      body={form.body}
      onClose={onClose}
      onSubmit={async (body) => {
        await save(await resolve(body));
        toasts.show({ kind: 'success', title: `Tool ${draft.name} ${entry ? 'changed' : 'created'}` });
      }}
    >
      <div className="form-row">
        <TextInput id="tool-name" labelText="Name" autoComplete="off" data-modal-primary-focus {...text('name')} />
        <NamespaceField
          id="tool-namespace"
          value={draft.namespace}
          onChange={(namespace) => set('namespace', namespace)}
          error={form.error('namespace')}
        />
      </div>
      <TextArea id="tool-description" labelText="Description" rows={3} {...text('description')} />
      <div className="form-row">
        <TextInput
          id="tool-uri"
          labelText="Upstream URI"
          readOnly={isDiscovered}
          helperText={
            isDiscovered
              ? 'Discovered tools keep their upstream'
              : 'URL of an MCP server, or URI in a capability service'
          }
          {...text('uri')}
        />
        {isDiscovered ? (
          <TextInput id="tool-type" labelText="Type" readOnly value={draft.toolType} />
        ) : (
          <ChoiceField
            id="tool-type"
            label="Type"
            items={['mcp-forward', ...new Set(services.map(({ name }) => name))]}
            value={draft.toolType}
            onChange={(toolType) => set('toolType', toolType)}
            helperText="Name of a capability service, or mcp-forward"
          />
        )}
      </div>
      <JsonEditor
        id="tool-input-schema"
        label="Input schema"
        value={draft.input_schema}
        onChange={(schema) => set('input_schema', schema)}
        helperText="JSON Schema of the arguments"
        error={form.error('input_schema')}
      />
      <Accordion>
        <AccordionItem title="Labels and configuration">
          <div className="form-row">
            <LabelsField id="tool-labels" field={text('labels')} />
            <div>
              <TextInput id="tool-configuration" labelText="Configuration URI" {...text('configurationURI')} />
              <TextInput id="tool-secrets" labelText="Secrets URI" {...text('secretsURI')} />
            </div>
          </div>
        </AccordionItem>
      </Accordion>
      {conflict && <ConflictView subject="tool" {...conflict} typed={form.body} />}
    </FormModal>
  );
}

function toDraft(tool: Tool | undefined): ToolDraft {
  return {
    name: tool?.name ?? '',
    description: tool?.description ?? '',
    uri: tool?.uri ?? '',
    toolType: tool?.toolType ?? '',
    namespace: tool?.namespace ?? DEFAULT_NAMESPACE,
    labels: formatLabels(tool?.labels ?? {}),
    input_schema: JSON.stringify(tool?.input_schema ?? { type: 'object', properties: {} }, null, 2),
    configurationURI: tool?.configurationURI ?? '',
    secretsURI: tool?.secretsURI ?? '',
  };
}

/** Members that the form does not have are kept. An empty URI removes it. */
function toBody(
  { labels, input_schema, configurationURI, secretsURI, ...draft }: ToolDraft,
  before: Tool | undefined,
): object {
  const { configurationURI: _configuration, secretsURI: _secrets, ...kept } = before ? writable(before) : {};
  return {
    ...kept,
    ...draft,
    labels: parseLabels(labels),
    input_schema: tryParse(input_schema) ?? null,
    ...(configurationURI !== '' && { configurationURI }),
    ...(secretsURI !== '' && { secretsURI }),
  };
}

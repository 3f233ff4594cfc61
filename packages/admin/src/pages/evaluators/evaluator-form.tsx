import { Accordion, AccordionItem, Select, SelectItem, TextArea } from '@carbon/react';
import { evaluatorInput } from '@sluice/contract';
import { unwrap } from '@sluice/contract/client';
import { type Evaluator, type EvaluatorSet, useApiQuery, useNamespaces } from '../../api/queries.ts';
import { ConflictView, useConflicts } from '../../ui/conflict.tsx';
import { ChoiceField, TextInput } from '../../ui/fields.tsx';
import { useForm } from '../../ui/form.ts';
import { JsonEditor, tryParse } from '../../ui/json-editor.tsx';
import { FormModal } from '../../ui/modal.tsx';
import { useToasts } from '../../ui/toasts.tsx';
import { DryRun } from './dry-run.tsx';
import { useEvaluatorChanges } from './evaluator-changes.ts';

interface EvaluatorFormProps {
  readonly set: EvaluatorSet;
  /** The evaluator to change; a new one, which runs last, if it is missing. */
  readonly evaluator?: Evaluator;
  readonly onClose: () => void;
}

/** What is typed. */
interface EvaluatorDraft {
  readonly name: string;
  readonly method: string;
  readonly namespace: string;
  readonly operation: Evaluator['llm']['operation'];
  readonly prompt: string;
  readonly connection: string;
  readonly schema: string;
  readonly path: string;
  readonly onError: Evaluator['on_error'];
}

/** Methods that requests of agents have; any other can be typed. */
const METHODS = ['tools/call', 'tools/list', 'resources/read', 'resources/list', 'prompts/get', 'prompts/list'];
const ALL_NAMESPACES = 'All namespaces';

/** The body with a name, which the service requires of an evaluator. */
const schema = evaluatorInput.refine(({ name }) => name !== '', { path: ['name'], error: 'must not be empty' });

/** Adds an evaluator, or changes one. */
export function EvaluatorForm({ set, evaluator, onClose }: EvaluatorFormProps) {
  const toasts = useToasts();
  const { data: namespaces = [] } = useNamespaces();
  const { data: connections = [] } = useApiQuery(['evaluators', 'connections'], (client, signal) =>
    unwrap(client.GET('/api/v1/evaluators/llm-connections', { signal })),
  );
  const form = useForm(toDraft(evaluator), schema, toBody);
  const { replace } = useEvaluatorChanges();
  const { draft, text, set: setMember } = form;
  const { conflict, resolve } = useConflicts(evaluator, () => {
    const current = set.evaluators.find(({ name }) => name === evaluator?.name);
    if (!current) throw new Error('It was deleted in the meantime. Add it as a new evaluator.');
    return current;
  });
  const isTaken = set.evaluators.some(({ name }) => name !== evaluator?.name && name === draft.name.trim());
  const isComplete = draft.method.trim() !== '' && draft.connection !== '' && draft.path.trim() !== '' && !isTaken;
  return (
    <FormModal
      heading={evaluator ? `Edit ${evaluator.name}` : 'Add an Evaluator'}
      submit={evaluator ? 'Save' : 'Add'}
      size="lg"
      body={isComplete ? form.body : undefined}
      onClose={onClose}
      onSubmit={async (body) => {
        const saved = await resolve(body);
        const evaluators = evaluator
          ? set.evaluators.map((other) => (other.name === evaluator.name ? saved : other))
          : [...set.evaluators, saved];
        await replace({ evaluators, revision: set.revision });
        toasts.show({ kind: 'success', title: `Evaluator ${body.name} ${evaluator ? 'changed' : 'added'}` });
      }}
    >
      <div className="form-row">
        <TextInput
          id="evaluator-name"
          labelText="Name"
          autoComplete="off"
          data-modal-primary-focus
          {...text('name')}
          {...(isTaken && { invalid: true, invalidText: 'Another evaluator has this name' })}
        />
        <ChoiceField
          id="evaluator-method"
          label="Method"
          items={METHODS}
          value={draft.method}
          onChange={(method) => setMember('method', method)}
          helperText="Requests to look at"
        />
        <ChoiceField
          id="evaluator-namespace"
          label="Namespace"
          items={[ALL_NAMESPACES, ...namespaces.map(({ name }) => name)]}
          value={draft.namespace}
          onChange={(namespace) => setMember('namespace', namespace)}
        />
      </div>
      <div className="form-row">
        <Select
          id="evaluator-connection"
          labelText="Connection to a model"
          helperText={connections.length === 0 ? 'None: add llm_connections to the bootstrap file' : undefined}
          value={draft.connection}
          onChange={({ target }) => setMember('connection', target.value)}
        >
          <SelectItem value="" text="Choose a connection" />
          {[...new Set([...connections, ...(evaluator ? [evaluator.llm.connection] : [])])].map((name) => (
            <SelectItem key={name} value={name} text={name} />
          ))}
        </Select>
        <Select
          id="evaluator-operation"
          labelText="Operation"
          value={draft.operation}
          onChange={({ target }) =>
            setMember('operation', evaluatorInput.shape.llm.shape.operation.parse(target.value))
          }
        >
          <SelectItem value="classify" text="classify" />
          <SelectItem value="filter" text="filter" />
          <SelectItem value="augment" text="augment" />
        </Select>
      </div>
      <TextArea id="evaluator-prompt" labelText="Prompt" rows={6} {...text('prompt')} />
      <JsonEditor
        id="evaluator-schema"
        label="Schema of the result"
        value={draft.schema}
        onChange={(value) => setMember('schema', value)}
        helperText="JSON Schema that the output of the model is checked with; empty for none"
        error={schemaError(draft.schema)}
      />
      <div className="form-row">
        <TextInput
          id="evaluator-path"
          labelText="Action"
          placeholder="actions/policy.wasm"
          helperText="Compiled component on the machine of the service"
          {...text('path')}
        />
        <Select
          id="evaluator-on-error"
          labelText="If the model or the action fails"
          value={draft.onError}
          onChange={({ target }) => setMember('onError', target.value === 'block' ? 'block' : 'continue')}
        >
          <SelectItem value="continue" text="continue: the request passes" />
          <SelectItem value="block" text="block: the request is rejected" />
        </Select>
      </div>
      {form.body && (
        <Accordion>
          <AccordionItem title="Dry run">
            <DryRun evaluator={form.body} />
          </AccordionItem>
        </Accordion>
      )}
      {conflict && <ConflictView subject="evaluator" {...conflict} typed={form.body} />}
    </FormModal>
  );
}

function schemaError(text: string): string | undefined {
  const value = text.trim() === '' ? {} : tryParse(text);
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? undefined : 'Must be a JSON object';
}

function toDraft(evaluator: Evaluator | undefined): EvaluatorDraft {
  const resultSchema = evaluator?.llm.result_schema ?? null;
  return {
    name: evaluator?.name ?? '',
    method: evaluator?.trigger.method ?? 'tools/call',
    namespace: evaluator?.trigger.namespace ?? ALL_NAMESPACES,
    operation: evaluator?.llm.operation ?? 'classify',
    prompt: evaluator?.llm.prompt ?? '',
    connection: evaluator?.llm.connection ?? '',
    schema: resultSchema === null ? '' : JSON.stringify(resultSchema, null, 2),
    path: evaluator?.processor.path ?? '',
    onError: evaluator?.on_error ?? 'continue',
  };
}

function toBody(draft: EvaluatorDraft): object {
  const { name, method, namespace, operation, prompt, connection, schema: resultSchema, path, onError } = draft;
  return {
    name: name.trim(),
    trigger: { method: method.trim(), namespace: ['', ALL_NAMESPACES].includes(namespace) ? null : namespace.trim() },
    llm: {
      operation,
      prompt,
      connection,
      // Not JSON: no object either, which the schema of the contract reports.
      result_schema: resultSchema.trim() === '' ? null : (tryParse(resultSchema) ?? 'invalid'),
    },
    processor: { path: path.trim() },
    on_error: onError,
  };
}

import { Button, InlineLoading, Select, SelectItem, Tag, TextArea } from '@carbon/react';
import { dryRunInput } from '@sluice/contract';
import { type components, unwrap } from '@sluice/contract/client';
import { counted } from '@sluice/protocol/text';
import { type ReactNode, useState } from 'react';
import { useApi } from '../../api/api.ts';
import { type Evaluator, useApiQuery } from '../../api/queries.ts';
import { InertText } from '../../ui/inert-text.tsx';
import { JsonEditor, tryParse } from '../../ui/json-editor.tsx';
import { ErrorNotice } from '../../ui/notices.tsx';

type DryRunResult = components['schemas']['DryRunResult'];

interface DryRunProps {
  /** As it is in the form, saved or not. */
  readonly evaluator: Evaluator;
}

/** Tries an evaluator on a request that is typed or taken from a recorded completion. Nothing is enforced or stored. */
export function DryRun({ evaluator }: DryRunProps) {
  const { client } = useApi();
  const { method, namespace } = evaluator.trigger;
  const [params, setParams] = useState('{\n  "name": "",\n  "arguments": {}\n}');
  const [chosen, setChosen] = useState('');
  const [answer, setAnswer] = useState('');
  const [usesModel, setUsesModel] = useState(false);
  const [isRunning, setRunning] = useState(false);
  const [outcome, setOutcome] = useState<{ readonly result?: DryRunResult; readonly error?: unknown }>();
  const recorded = useRecordedCalls();
  const parsed = tryParse(params);
  const isValid = typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed);

  const run = async (): Promise<void> => {
    setRunning(true);
    try {
      const body = dryRunInput.parse({
        evaluator,
        request: { method, namespace: namespace ?? 'default', params: parsed },
        ...(!usesModel && { answer }),
      });
      setOutcome({ result: await unwrap(client.POST('/api/v1/evaluators/dry-run', { body })) });
    } catch (error) {
      setOutcome({ error });
    } finally {
      setRunning(false);
    }
  };
  return (
    <section aria-label="Dry run" className="dry-run">
      {recorded.length > 0 && (
        <Select
          id="dry-run-recorded"
          labelText="Request"
          value={chosen}
          onChange={({ target }) => {
            setChosen(target.value);
            const call = recorded[Number(target.value)];
            if (target.value !== '' && call) setParams(JSON.stringify(call, null, 2));
          }}
        >
          <SelectItem value="" text="Type it, or choose a call of a recorded completion" />
          {recorded.map(({ name }, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: calls may be equal
            <SelectItem key={index} value={String(index)} text={name} />
          ))}
        </Select>
      )}
      {/* The editor has its own state: another call makes another editor. */}
      <JsonEditor
        key={chosen}
        id="dry-run-params"
        label={`Parameters of ${method}`}
        value={params}
        onChange={setParams}
        error={isValid ? undefined : 'Must be a JSON object'}
      />
      <Select
        id="dry-run-answer-by"
        labelText="Answer of the model"
        value={usesModel ? 'model' : 'typed'}
        onChange={({ target }) => setUsesModel(target.value === 'model')}
      >
        <SelectItem value="typed" text="Typed below" />
        <SelectItem value="model" text={`From the model of ${evaluator.llm.connection}`} />
      </Select>
      {!usesModel && (
        <TextArea
          id="dry-run-answer"
          labelText="Answer"
          rows={2}
          value={answer}
          onChange={({ target }) => setAnswer(target.value)}
        />
      )}
      <div className="page-actions">
        <Button kind="tertiary" size="md" disabled={isRunning || !isValid} onClick={() => void run()}>
          Try the evaluator
        </Button>
        {isRunning && <InlineLoading description="Evaluating" />}
      </div>
      {outcome?.error !== undefined && <ErrorNotice title="The dry run failed" error={outcome.error} />}
      {outcome?.result && <Result result={outcome.result} />}
    </section>
  );
}

function Result({ result }: { readonly result: DryRunResult }) {
  const { verdict, rejected, matches, reason, tools, metadata, llm, action, log, copies, prompt } = result;
  return (
    <dl className="facts" aria-label="Verdict">
      <Fact label="Verdict">
        <Tag type={rejected ? 'red' : 'green'}>{verdict}</Tag>
        {!matches && <Tag type="warm-gray">the trigger does not match this request</Tag>}
      </Fact>
      {reason !== undefined && (
        <Fact label="Reason">
          <InertText text={reason} />
        </Fact>
      )}
      {tools && <Fact label="Tools that remain">{tools.join(', ') || 'none'}</Fact>}
      {metadata && <Fact label="Metadata">{JSON.stringify(metadata)}</Fact>}
      {copies.length > 0 && (
        <Fact label="Copies">{copies.map(({ tool, namespace }) => `${tool} to ${namespace}`).join(', ')}</Fact>
      )}
      {llm && (
        <Fact label="Model">
          <InertText text={llm.answer} /> ({counted(llm.calls, 'call')}, {Math.round(llm.duration_ms)} ms)
          {llm.schema_error !== undefined && <p>{`Does not match the schema: ${llm.schema_error}`}</p>}
        </Fact>
      )}
      {action && (
        <Fact label="Action">
          {Math.round(action.duration_ms)} ms
          {action.memory_bytes !== undefined && `, ${Math.round(action.memory_bytes / 1024 / 1024)} MiB`}
          {action.fault && ` (${action.fault})`}
        </Fact>
      )}
      {log.length > 0 && (
        <Fact label="Log">
          {log.map(({ level, message }, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: log lines have no other identity
            <p key={index}>
              <Tag size="sm">{level}</Tag> <InertText text={message} />
            </p>
          ))}
        </Fact>
      )}
      <Fact label="Prompt">
        <pre className="text-content">
          <InertText text={prompt} maxLength={20_000} />
        </pre>
      </Fact>
    </dl>
  );
}

function Fact({ label, children }: { readonly label: string; readonly children: ReactNode }) {
  return (
    <>
      <dt>{label}</dt>
      <dd>{children}</dd>
    </>
  );
}

/** A tool call as parameters of `tools/call`. */
interface RecordedCall {
  readonly name: string;
  readonly arguments: unknown;
}

/** Completions to look for calls in. */
const COMPLETIONS = '50';

/** Tool calls that models requested in the latest recorded completions. */
function useRecordedCalls(): readonly RecordedCall[] {
  const { data = [] } = useApiQuery(['other', 'recorded-calls'], (client, signal) =>
    unwrap(client.GET('/api/v1/interactions', { params: { query: { limit: COMPLETIONS } }, signal })),
  );
  return data.flatMap(({ response_body }) => callsIn(response_body)).reverse();
}

/** Calls in a chat completion: `choices[].message.tool_calls[].function`. */
function callsIn(body: unknown): RecordedCall[] {
  const choices = membersOf(body, 'choices');
  return choices
    .flatMap((choice) => membersOf(memberOf(choice, 'message'), 'tool_calls'))
    .map((call) => memberOf(call, 'function'))
    .map((called) => ({
      name: String(memberOf(called, 'name') ?? ''),
      arguments: tryParse(String(memberOf(called, 'arguments') ?? '')) ?? {},
    }));
}

function memberOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;
}

function membersOf(value: unknown, name: string): unknown[] {
  const list = memberOf(value, name);
  return Array.isArray(list) ? list : [];
}

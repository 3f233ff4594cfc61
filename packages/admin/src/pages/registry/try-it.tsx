import { Button, InlineLoading, Tag } from '@carbon/react';
import type { ElicitRequest, ElicitResult } from '@modelcontextprotocol/client';
import { type ReactNode, useEffect, useMemo, useRef, useState } from 'react';
import { useApi } from '../../api/api.ts';
import { type Exchange, expandTemplate, withMcpClient } from '../../api/mcp.ts';
import { type FormValue, sentValue } from '../../ui/form-value.ts';
import { InertText } from '../../ui/inert-text.tsx';
import { TextView } from '../../ui/json-view.tsx';
import { ErrorNotice } from '../../ui/notices.tsx';
import { SchemaForm, useFormValue } from '../../ui/schema-form.tsx';
import { ArgumentFields, type Parameter, textsOf } from './argument-fields.tsx';
import { ServerQuestion } from './server-question.tsx';
import { TryItResult } from './try-it-result.tsx';
import { useCompletions } from './use-completions.ts';

/** What to try: a tool, resource or prompt of a namespace. */
type Target =
  | { readonly kind: 'tool'; readonly name: string; readonly schema: Readonly<Record<string, unknown>> }
  | { readonly kind: 'prompt'; readonly name: string; readonly parameters: readonly Parameter[] }
  /** The parameters are the variables of a template. */
  | { readonly kind: 'resource'; readonly uri: string; readonly parameters: readonly Parameter[] };

export interface TryItProps {
  readonly namespace: string;
  readonly target: Target;
  /** Label of the button: "Call". */
  readonly action: string;
}

/** What a call has produced so far. */
interface Run {
  readonly state: 'running' | 'done' | 'failed' | 'canceled';
  readonly result?: unknown;
  readonly error?: unknown;
  readonly progress?: string;
  readonly logs: readonly { readonly level: string; readonly text: string }[];
  readonly exchanges: readonly Exchange[];
  readonly durationMs?: number;
}

/** A question of the server that waits for an answer. */
interface Question {
  readonly params: ElicitRequest['params'];
  readonly answer: (result: ElicitResult) => void;
}

/** Calls a tool, reads a resource or gets a prompt as an MCP client of the namespace would, and shows all that happens. */
export default function TryIt({ namespace, target, action }: TryItProps) {
  const { base } = useApi();
  const [value, setValue] = useFormValue(target.kind === 'tool' ? target.schema : undefined);
  const [run, setRun] = useState<Run>();
  const [question, setQuestion] = useState<Question>();
  const running = useRef<AbortController>(undefined);
  // The call ends with the dialog.
  useEffect(() => () => running.current?.abort(), []);

  const start = async (): Promise<void> => {
    running.current?.abort();
    const controller = new AbortController();
    running.current = controller;
    const started = performance.now();
    const update = (change: (before: Run) => Partial<Run>): void => {
      if (!controller.signal.aborted) setRun((before) => ({ ...(before ?? EMPTY), ...change(before ?? EMPTY) }));
    };
    setRun(EMPTY);
    try {
      const observer = {
        onProgress: (progress: string) => update(() => ({ progress })),
        onLog: (level: string, text: string) => update(({ logs }) => ({ logs: [...logs, { level, text }] })),
        onExchange: (exchange: Exchange) => update(({ exchanges }) => ({ exchanges: [...exchanges, exchange] })),
        onElicitation: (params: ElicitRequest['params']) =>
          new Promise<ElicitResult>((resolve) =>
            setQuestion({
              params,
              answer: (result) => {
                setQuestion(undefined);
                resolve(result);
              },
            }),
          ),
      };
      const result = await withMcpClient(
        base,
        namespace,
        controller.signal,
        observer,
        (client, options, _meta): Promise<unknown> => {
          if (target.kind === 'tool')
            return client.callTool({ name: target.name, arguments: sentValue(value, target.schema), _meta }, options);
          const texts = textsOf(value);
          if (target.kind === 'prompt')
            return client.getPrompt({ name: target.name, arguments: texts, _meta }, options);
          const uri = target.parameters.length === 0 ? target.uri : expandTemplate(target.uri, texts);
          return client.readResource({ uri, _meta }, options);
        },
      );
      update(() => ({ state: 'done', result, durationMs: performance.now() - started }));
    } catch (error) {
      update(() => ({ state: 'failed', error, durationMs: performance.now() - started }));
    }
  };
  const cancel = (): void => {
    running.current?.abort();
    setQuestion(undefined);
    setRun((before) => before && { ...before, state: 'canceled' });
  };
  return (
    <div className="try-it">
      <Inputs namespace={namespace} target={target} value={value} onChange={setValue} />
      <div className="page-actions">
        <Button size="md" disabled={run?.state === 'running'} onClick={() => void start()}>
          {action}
        </Button>
        {run?.state === 'running' && (
          <>
            <Button kind="danger--tertiary" size="md" onClick={cancel}>
              Cancel the call
            </Button>
            <InlineLoading
              description={question ? 'The server waits for your answer' : (run.progress ?? 'Waiting for the response')}
            />
          </>
        )}
      </div>
      {question && <ServerQuestion params={question.params} onAnswer={question.answer} />}
      {run && <RunView run={run} />}
    </div>
  );
}

interface InputsProps {
  readonly namespace: string;
  readonly target: Target;
  readonly value: FormValue;
  readonly onChange: (value: FormValue) => void;
}

/** What the operator is asked for. */
function Inputs({ namespace, target, value, onChange }: InputsProps) {
  const isResource = target.kind === 'resource';
  const key = isResource ? target.uri : target.name;
  const reference = useMemo(
    () => (isResource ? { type: 'ref/resource' as const, uri: key } : { type: 'ref/prompt' as const, name: key }),
    [isResource, key],
  );
  const complete = useCompletions(namespace, reference);
  if (target.kind === 'tool') return <SchemaForm schema={target.schema} value={value} onChange={onChange} />;
  return <ArgumentFields parameters={target.parameters} value={value} onChange={onChange} complete={complete} />;
}

const EMPTY: Run = { state: 'running', logs: [], exchanges: [] };

function RunView({ run }: { readonly run: Run }) {
  const { state, error, result, logs, exchanges, durationMs } = run;
  return (
    <>
      {state === 'canceled' && <p>You canceled the call.</p>}
      {state === 'failed' && <ErrorNotice title="The call failed" error={error} />}
      {state === 'done' && (
        <section aria-label="Result">
          <h3 className="section-title">Result{durationMs !== undefined && ` after ${Math.round(durationMs)} ms`}</h3>
          <TryItResult result={result} />
        </section>
      )}
      {logs.length > 0 && (
        <Part title="Log messages of the server">
          {logs.map(({ level, text }, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: log messages have no other identity
            <p key={index}>
              <Tag size="sm">{level}</Tag> <InertText text={text} />
            </p>
          ))}
        </Part>
      )}
      {exchanges.length > 0 && (
        <Part title="Raw exchange">
          {exchanges.map(({ request, response, status }, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: exchanges have no other identity
            <div key={index} className="exchange">
              <TextView text={`→ ${request}`} label={`Request ${index + 1}`} maxLength={20_000} />
              <TextView text={`← ${status} ${response}`} label={`Response ${index + 1}`} maxLength={20_000} />
            </div>
          ))}
        </Part>
      )}
    </>
  );
}

function Part({ title, children }: { readonly title: string; readonly children: ReactNode }) {
  return (
    <details>
      <summary className="section-title">{title}</summary>
      {children}
    </details>
  );
}

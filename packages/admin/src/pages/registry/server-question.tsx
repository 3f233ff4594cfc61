import { Button } from '@carbon/react';
import type { ElicitRequest, ElicitResult } from '@modelcontextprotocol/client';
import { useMemo } from 'react';
import { type FormValue, sentValue } from '../../ui/form-value.ts';
import { InertText } from '../../ui/inert-text.tsx';
import { SchemaForm, useFormValue } from '../../ui/schema-form.tsx';
import type { JsonSchema } from '../../ui/schema-validator.ts';

interface ServerQuestionProps {
  readonly params: ElicitRequest['params'];
  readonly onAnswer: (result: ElicitResult) => void;
}

/** A question of the server during a call: a form, or a URL that is opened only by a click and only with https. */
export function ServerQuestion({ params, onAnswer }: ServerQuestionProps) {
  const isUrl = 'url' in params;
  const schema = useMemo<JsonSchema | undefined>(
    () => ('requestedSchema' in params ? { ...params.requestedSchema } : undefined),
    [params],
  );
  const [value, setValue] = useFormValue(schema);
  return (
    <section className="question" aria-label="Question of the server">
      <h3 className="section-title">The server asks</h3>
      <p>
        <InertText text={params.message} />
      </p>
      {isUrl && <QuestionUrl url={String(params.url)} />}
      {schema && <SchemaForm schema={schema} value={value} onChange={setValue} />}
      <div className="page-actions">
        <Button
          size="sm"
          onClick={() =>
            onAnswer({ action: 'accept', ...(schema && { content: contentOf(sentValue(value, schema)) }) })
          }
        >
          {isUrl ? 'Continue' : 'Answer'}
        </Button>
        <Button kind="secondary" size="sm" onClick={() => onAnswer({ action: 'decline' })}>
          Decline
        </Button>
        <Button kind="ghost" size="sm" onClick={() => onAnswer({ action: 'cancel' })}>
          Cancel
        </Button>
      </div>
    </section>
  );
}

function QuestionUrl({ url }: { readonly url: string }) {
  const isSafe = URL.parse(url)?.protocol === 'https:';
  return (
    <p>
      <code>
        <InertText text={url} />
      </code>{' '}
      {isSafe ? (
        <a href={url} target="_blank" rel="noopener noreferrer">
          Open
        </a>
      ) : (
        'It is not opened: only https addresses are.'
      )}
    </p>
  );
}

/** Answers have only plain values. */
function contentOf(value: FormValue): Record<string, string | number | boolean | string[]> {
  const content: Record<string, string | number | boolean | string[]> = {};
  for (const [name, each] of Object.entries(value)) {
    if (typeof each === 'string' || typeof each === 'number' || typeof each === 'boolean') content[name] = each;
    else if (Array.isArray(each)) content[name] = each.map(String);
  }
  return content;
}

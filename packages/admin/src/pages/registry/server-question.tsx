import { Button } from '@carbon/react';
import type { ElicitRequest, ElicitResult } from '@modelcontextprotocol/client';
import { useState } from 'react';
import { InertText } from '../../ui/inert-text.tsx';
import { type FormValue, SchemaForm } from '../../ui/schema-form.tsx';

interface ServerQuestionProps {
  readonly params: ElicitRequest['params'];
  readonly onAnswer: (result: ElicitResult) => void;
}

/** A question of the server during a call: a form, or a URL that is opened only by a click and only with https. */
export function ServerQuestion({ params, onAnswer }: ServerQuestionProps) {
  const [value, setValue] = useState<FormValue>({});
  const isUrl = 'url' in params;
  const schema = 'requestedSchema' in params ? params.requestedSchema : undefined;
  return (
    <section className="question" aria-label="Question of the server">
      <h3 className="section-title">The server asks</h3>
      <p>
        <InertText text={params.message} />
      </p>
      {isUrl && <QuestionUrl url={String(params.url)} />}
      {schema && <SchemaForm schema={{ ...schema }} value={value} onChange={setValue} />}
      <div className="page-actions">
        <Button size="sm" onClick={() => onAnswer({ action: 'accept', ...(schema && { content: contentOf(value) }) })}>
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

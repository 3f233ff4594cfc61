import { Tag } from '@carbon/react';
import { useMemo } from 'react';
import type { Prompt } from '../../api/queries.ts';
import type { Column } from '../../ui/data-table.tsx';
import { InertText } from '../../ui/inert-text.tsx';
import type { Parameter } from './argument-fields.tsx';
import { EntriesPage, type EntryDialogProps, useSearchedEntries } from './entries-page.tsx';
import { EntryDetails } from './entry-details.tsx';
import { PROMPTS } from './entry-kinds.ts';
import { PromptForm } from './prompt-form.tsx';

/** `#/prompts` */
export default function Prompts() {
  const list = useSearchedEntries('prompts');
  const columns = useMemo<readonly Column<Prompt>[]>(
    () => [
      {
        id: 'arguments',
        header: 'Arguments',
        enableSorting: false,
        cell: ({ row }) => <InertText text={argumentsOf(row.original).map(nameOf).join(', ') || '–'} maxLength={200} />,
      },
    ],
    [],
  );
  return (
    <EntriesPage
      api={PROMPTS}
      title="Prompts"
      description="Templates of messages that users of agents can choose."
      list={list}
      columns={columns}
      Form={PromptForm}
      Details={PromptDetails}
    />
  );
}

/** An argument of a prompt; its members are the upstream's. */
type Argument = Readonly<Record<string, unknown>>;

function argumentsOf(prompt: Prompt): Argument[] {
  return prompt.arguments.filter((argument): argument is Argument => typeof argument === 'object' && argument !== null);
}

function nameOf({ name, required }: Argument): string {
  return `${String(name)}${required === true ? ' (required)' : ''}`;
}

function toParameter({ name, description, required }: Argument): Parameter {
  return {
    name: String(name),
    required: required === true,
    ...(typeof description === 'string' && { description }),
  };
}

function PromptDetails({ entry, onClose }: EntryDialogProps<Prompt>) {
  return (
    <EntryDetails
      entry={entry}
      label="Prompt"
      onClose={onClose}
      tryIt={{
        target: { kind: 'prompt', name: entry.name, parameters: argumentsOf(entry).map(toParameter) },
        action: 'Get',
      }}
      facts={
        <>
          <dt>Arguments</dt>
          <dd>
            {entry.arguments.length === 0 && 'None'}
            {argumentsOf(entry).map((argument) => (
              <p key={String(argument.name)}>
                <strong>
                  <InertText text={nameOf(argument)} />
                </strong>{' '}
                {typeof argument.description === 'string' && <InertText text={argument.description} />}
              </p>
            ))}
          </dd>
        </>
      }
    >
      {entry.messages.map(({ role, content }, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: messages have no other identity
        <div key={index} className="message">
          <Tag size="sm" type="blue">
            {role}
          </Tag>
          <p>
            <InertText text={typeof content === 'string' ? content : JSON.stringify(content)} />
          </p>
        </div>
      ))}
    </EntryDetails>
  );
}

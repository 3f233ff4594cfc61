import { type ChangeEvent, useState } from 'react';
import type { z } from 'zod';

/** Properties of a Carbon input for text. */
export interface TextField {
  readonly value: string;
  readonly onChange: (event: ChangeEvent<HTMLInputElement | HTMLTextAreaElement>) => void;
  readonly onBlur: () => void;
  readonly invalid: boolean;
  readonly invalidText: string;
}

/** State of a form: what is typed, and what the service would accept. */
export interface Form<Draft, Body> {
  readonly draft: Draft;
  set<Name extends keyof Draft>(name: Name, value: Draft[Name]): void;
  /** The properties of an input for a member that is a text; its error appears once it has been left. */
  text(name: TextName<Draft>): TextField;
  /** Error of a member. */
  error(name: keyof Draft & string): string | undefined;
  /** Body for the service; undefined while the form is not valid. */
  readonly body: Body | undefined;
}

/** Names of the members that are texts. */
type TextName<Draft> = { [Name in keyof Draft & string]: Draft[Name] extends string ? Name : never }[keyof Draft &
  string];

/**
 * State of a form whose body has a schema of the contract, so that the console and the service agree on what is valid.
 * `toBody` converts what is typed; it is a pure function. Its members have the names of the draft's.
 */
export function useForm<Draft extends object, Schema extends z.ZodType>(
  initial: Draft,
  schema: Schema,
  toBody: (draft: Draft) => object,
): Form<Draft, z.output<Schema>> {
  const [draft, setDraft] = useState(initial);
  const [left, setLeft] = useState<ReadonlySet<string>>(new Set());
  const parsed = schema.safeParse(toBody(draft));
  // The first error of each member.
  const errors = new Map<string, string>();
  for (const { path, message } of parsed.error?.issues ?? []) {
    const member = String(path[0] ?? '');
    if (!errors.has(member)) errors.set(member, message);
  }
  const set = <Name extends keyof Draft>(name: Name, value: Draft[Name]): void =>
    setDraft((before) => ({ ...before, [name]: value }));
  return {
    draft,
    set,
    body: parsed.data,
    error(name) {
      const error = errors.get(name);
      return error === undefined ? undefined : capitalize(error);
    },
    text(name) {
      const error = errors.get(name);
      return {
        value: String(draft[name]),
        // `TextName` selects the members that are texts.
        onChange: ({ target }) => setDraft((before) => ({ ...before, [name]: target.value })),
        onBlur: () => setLeft((before) => new Set(before).add(name)),
        invalid: left.has(name) && error !== undefined,
        invalidText: capitalize(error ?? ''),
      };
    },
  };
}

/** Messages of the contract continue the name of a member: "must have 1 to 63 characters". */
function capitalize(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Returns labels as lines of `name=value`. */
export function formatLabels(labels: Readonly<Record<string, string>>): string {
  return Object.entries(labels)
    .map(([name, value]) => `${name}=${value}`)
    .join('\n');
}

/** Reads lines of `name=value`; a line without `=` is a label without a value. */
export function parseLabels(text: string): Record<string, string> {
  const lines = text.split('\n').map((line) => line.trim());
  return Object.fromEntries(
    lines
      .filter((line) => line !== '')
      .map((line) => {
        const [name = '', ...value] = line.split('=');
        return [name.trim(), value.join('=').trim()];
      }),
  );
}

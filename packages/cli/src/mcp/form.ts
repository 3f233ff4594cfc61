import {
  type ElicitRequestFormParams,
  type ElicitResult,
  fromJsonSchema,
  type JsonSchemaType,
} from '@modelcontextprotocol/client';
import type { Terminal } from '../terminal/terminal.ts';
import { abbreviate, sanitizeLine } from '../terminal/text.ts';

/** Something that can be chosen: what is sent, and what people see. */
export interface Choice {
  readonly value: string;
  readonly title: string;
}

/** What a field lets people choose from, in all the ways in which a schema can say so; none when it takes any text. */
export function fieldChoices(field: FieldSchema): readonly Choice[] {
  const schema = field.type === 'array' ? field.items : field;
  if ('oneOf' in schema) return titled(schema.oneOf);
  if ('anyOf' in schema) return titled(schema.anyOf);
  if (!('enum' in schema)) return [];
  const names = 'enumNames' in schema && Array.isArray(schema.enumNames) ? schema.enumNames.map(String) : [];
  return schema.enum.map((value, at) => ({ value, title: names[at] ?? value }));
}

function titled(options: readonly { readonly const: string; readonly title: string }[]): readonly Choice[] {
  return options.map(({ const: value, title }) => ({ value, title }));
}

type FormSchema = ElicitRequestFormParams['requestedSchema'];
/** What one field of a form may be. */
export type FieldSchema = FormSchema['properties'][string];
/** A form that has been filled in. */
export type FormContent = NonNullable<ElicitResult['content']>;
type FieldValue = FormContent[string];

/** What somebody who is asked may have typed. */
type FieldInput =
  | { readonly kind: 'value'; readonly value: FieldValue }
  | { readonly kind: 'left out' }
  | { readonly kind: 'refused'; readonly problem: string };

/**
 * Asks for one field after the other, again when an answer does not fit. An empty line takes the default, or leaves the
 * field out where it is not required. Undefined when the person does not go on (Ctrl-D).
 */
export async function fillForm(schema: FormSchema, terminal: Terminal): Promise<FormContent | undefined> {
  const content: FormContent = {};
  for (const [name, field] of Object.entries(schema.properties)) {
    const required = schema.required?.includes(name) === true;
    const choices = fieldChoices(field);
    choices.forEach(({ title }, at) => {
      terminal.stderr.write(`    ${at + 1}) ${sanitizeLine(abbreviate(title))}\n`);
    });
    const reading = await promptField(formatPrompt(name, field, choices, required), field, choices, required, terminal);
    if (reading === undefined) return undefined;
    if (reading.kind === 'value') content[name] = reading.value;
  }
  return content;
}

async function promptField(
  text: string,
  field: FieldSchema,
  choices: readonly Choice[],
  required: boolean,
  { stdin, stderr }: Terminal,
): Promise<Exclude<FieldInput, { readonly kind: 'refused' }> | undefined> {
  for (;;) {
    const line = await stdin.line(text);
    if (line === undefined) return undefined;
    const reading = await parseField(line, field, choices, required);
    if (reading.kind !== 'refused') return reading;
    stderr.write(`    ${sanitizeLine(reading.problem)}\n`);
  }
}

function formatPrompt(name: string, field: FieldSchema, choices: readonly Choice[], required: boolean): string {
  const about = [field.title, field.description].filter((text) => text !== undefined && text !== name).join(': ');
  const hint = required ? describeExpected(field, choices) : `${describeExpected(field, choices)}, may be left out`;
  const { default: initial } = field;
  const shown = initial === undefined ? '' : ` [${typeof initial === 'string' ? initial : JSON.stringify(initial)}]`;
  return `  ${sanitizeLine(`${abbreviate(name)}${about === '' ? '' : ` - ${abbreviate(about)}`} (${hint})${abbreviate(shown)}`)}: `;
}

async function parseField(
  line: string,
  field: FieldSchema,
  choices: readonly Choice[],
  required: boolean,
): Promise<FieldInput> {
  const text = line.trim();
  if (text === '') {
    if (field.default !== undefined) return { kind: 'value', value: field.default };
    return required ? { kind: 'refused', problem: 'this is needed' } : { kind: 'left out' };
  }
  const value = convertValue(text, field, choices);
  if (value === undefined) return { kind: 'refused', problem: `not understood: ${describeExpected(field, choices)}` };
  const checked = await fromJsonSchema(pickConstraints(field))['~standard'].validate(value);
  if (checked.issues === undefined) return { kind: 'value', value };
  return { kind: 'refused', problem: checked.issues.map(({ message }) => message).join('; ') };
}

/** What was typed as a value of the field's type; undefined when it is none. */
function convertValue(text: string, field: FieldSchema, choices: readonly Choice[]): FieldValue | undefined {
  switch (field.type) {
    case 'boolean':
      return /^(?:y|yes|true)$/i.test(text) ? true : /^(?:n|no|false)$/i.test(text) ? false : undefined;
    case 'number':
    case 'integer':
      return Number.isFinite(Number(text)) ? Number(text) : undefined;
    case 'array': {
      const values = text.split(',').map((part) => findChoice(part.trim(), choices));
      return values.every((value) => value !== undefined) ? values : undefined;
    }
    default:
      return choices.length === 0 ? text : findChoice(text, choices);
  }
}

/** By value, by title, or by number in the list. */
function findChoice(text: string, choices: readonly Choice[]): string | undefined {
  const choice = choices.find(({ value }) => value === text) ?? choices.find(({ title }) => title === text);
  return (choice ?? (/^\d+$/.test(text) ? choices[Number(text) - 1] : undefined))?.value;
}

function describeExpected({ type }: FieldSchema, choices: readonly Choice[]): string {
  if (choices.length > 0) return type === 'array' ? 'numbers of the list, with commas' : 'a number of the list';
  return { boolean: 'y or n', integer: 'a whole number', number: 'a number', string: 'text', array: 'a list' }[type];
}

/** Nothing else of the server's may become a check: a pattern may take for ever. What is chosen needs none. */
const CONSTRAINTS: readonly string[] = [
  'type',
  'format',
  'minLength',
  'maxLength',
  'minimum',
  'maximum',
  'minItems',
  'maxItems',
];

/** The constraints alone. */
function pickConstraints(field: FieldSchema): JsonSchemaType {
  return Object.fromEntries(Object.entries(field).filter(([key]) => CONSTRAINTS.includes(key)));
}

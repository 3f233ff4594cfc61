import {
  type ElicitRequestFormParams,
  type ElicitResult,
  fromJsonSchema,
  type JsonSchemaType,
} from '@modelcontextprotocol/client';
import type { Terminal } from '../terminal/terminal.ts';
import { abbreviate, sanitizeLine } from '../terminal/text.ts';

/** A choice: its value and its displayed title. */
export interface Choice {
  readonly value: string;
  readonly title: string;
}

/** Returns the choices of a field in all schema variants; none when it is free text. */
function fieldChoices(field: FieldSchema): readonly Choice[] {
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
/** Schema of a form field. */
export type FieldSchema = FormSchema['properties'][string];
/** Content of a completed form. */
export type FormContent = NonNullable<ElicitResult['content']>;
type FieldValue = FormContent[string];

/** Parsed input of a field. */
type FieldInput =
  | { readonly kind: 'value'; readonly value: FieldValue }
  | { readonly kind: 'left out' }
  | { readonly kind: 'refused'; readonly problem: string };

/**
 * Prompts for each field until its input is valid. An empty line takes the default or skips an optional field.
 * Undefined when the user cancels (Ctrl-D).
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
  const hint = required ? describeExpected(field, choices) : `${describeExpected(field, choices)}, optional`;
  const { default: initial } = field;
  const initialText =
    initial === undefined ? '' : ` [${typeof initial === 'string' ? initial : JSON.stringify(initial)}]`;
  return `  ${sanitizeLine(`${abbreviate(name)}${about === '' ? '' : ` - ${abbreviate(about)}`} (${hint})${abbreviate(initialText)}`)}: `;
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
    return required ? { kind: 'refused', problem: 'required' } : { kind: 'left out' };
  }
  const value = convertValue(text, field, choices);
  if (value === undefined) return { kind: 'refused', problem: `expected ${describeExpected(field, choices)}` };
  const checked = await fromJsonSchema(pickConstraints(field))['~standard'].validate(value);
  if (checked.issues === undefined) return { kind: 'value', value };
  return { kind: 'refused', problem: checked.issues.map(({ message }) => message).join('; ') };
}

/** Converts input to the type of the field; undefined when it is not valid. */
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

/** Finds a choice by value, title or number. */
function findChoice(text: string, choices: readonly Choice[]): string | undefined {
  const choice = choices.find(({ value }) => value === text) ?? choices.find(({ title }) => title === text);
  return (choice ?? (/^\d+$/.test(text) ? choices[Number(text) - 1] : undefined))?.value;
}

function describeExpected({ type }: FieldSchema, choices: readonly Choice[]): string {
  if (choices.length > 0) return type === 'array' ? 'comma-separated numbers from the list' : 'a number from the list';
  return { boolean: 'y or n', integer: 'a whole number', number: 'a number', string: 'text', array: 'a list' }[type];
}

/** Only these constraints of the server are validated: a pattern may take forever. Choices need no validation. */
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

function pickConstraints(field: FieldSchema): JsonSchemaType {
  return Object.fromEntries(Object.entries(field).filter(([key]) => CONSTRAINTS.includes(key)));
}

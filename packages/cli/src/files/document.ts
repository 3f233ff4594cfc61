import { validate } from '@sluice/contract';
import type { JsonValue } from '@sluice/protocol/json/parse';
import type { z } from 'zod';
import { Failure } from '../failure.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { parseJsonText, readText } from './read-file.ts';

/** A file, or standard input for `-`, as JSON or YAML. Throws `Failure` that names the file and the place. */
export async function readDocument(path: string, terminal: Terminal): Promise<JsonValue> {
  return parseDocument(await readText(path, terminal), path === '-' ? 'standard input' : path);
}

/** JSON or YAML as a value in which numbers keep their spelling. `source` names where it comes from. */
export async function parseDocument(text: string, source: string): Promise<JsonValue> {
  const json = parseJsonText(text, source);
  if (json !== undefined) return json;
  // The YAML parser is loaded for who needs it.
  const { parseLocated } = await import('./located-document.ts');
  return parseLocated(text, source).content;
}

/** A value as the schema's type, or what is wrong with it, a line each: `input_schema: is required`. */
export function tryValidate<T extends z.ZodType>(
  schema: T,
  value: unknown,
): { readonly value: z.output<T> } | { readonly findings: string[] } {
  const result = validate(schema, value);
  if ('value' in result) return result;
  return { findings: result.issues.map(({ path, message }) => (path === '' ? message : `${path}: ${message}`)) };
}

/** A value as the schema's type. Throws {@link Failure} with what is wrong with it; `what` is what it should be. */
export function validated<T extends z.ZodType>(schema: T, value: unknown, what: string): z.output<T> {
  const result = tryValidate(schema, value);
  if ('value' in result) return result.value;
  throw new Failure(`invalid ${what}`, { notes: result.findings });
}

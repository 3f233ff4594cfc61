import type { JsonValue } from '@sluice/protocol/json/parse';
import type { z } from 'zod';
import { Failure } from '../failure.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { parseJsonText, readText } from './read-file.ts';

/** Reads a file, or stdin for `-`, as JSON or YAML. Throws `Failure` with file and position. */
export async function readDocument(path: string, terminal: Terminal): Promise<JsonValue> {
  return parseDocument(await readText(path, terminal), path === '-' ? 'standard input' : path);
}

/** Parses JSON or YAML; numbers are unchanged. `source` is the name for messages. */
export async function parseDocument(text: string, source: string): Promise<JsonValue> {
  const json = parseJsonText(text, source);
  if (json !== undefined) return json;
  // Loaded on demand, because the YAML parser loads slowly.
  const { parseLocated } = await import('./located-document.ts');
  return parseLocated(text, source).content;
}

/** The schemas of the contract. They load slowly, and only commands that send something need them. */
type Schemas = typeof import('@sluice/contract');

/** Validates a value and returns it, or the findings, one line each: `input_schema: is required`. */
export async function tryValidate<T extends z.ZodType>(
  select: (schemas: Schemas) => T,
  value: unknown,
): Promise<{ readonly value: z.output<T> } | { readonly findings: string[] }> {
  const schemas = await import('@sluice/contract');
  const result = schemas.validate(select(schemas), value);
  if ('value' in result) return result;
  return { findings: result.issues.map(({ path, message }) => (path === '' ? message : `${path}: ${message}`)) };
}

/** Validates a value and returns it. Throws {@link Failure} with the findings; `what` names the expected type. */
export async function validated<T extends z.ZodType>(
  select: (schemas: Schemas) => T,
  value: unknown,
  what: string,
): Promise<z.output<T>> {
  const result = await tryValidate(select, value);
  if ('value' in result) return result.value;
  throw new Failure(`invalid ${what}`, { notes: result.findings });
}

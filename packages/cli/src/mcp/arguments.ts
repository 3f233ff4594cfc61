import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { isJsonObject, type JsonObject, type JsonValue, parseLossless } from '@sluice/protocol/json/parse';
import { Failure } from '../failure.ts';
import { errorReason } from '../files/system-error.ts';

/** Schemas may be recursive. */
const MAX_DEPTH = 20;

/** Whether a property may be a string according to the schema; true when the schema specifies no type. */
export function acceptsStrings(schema: unknown, property: string): boolean {
  const properties = getMember(schema, 'properties');
  const own = getMember(properties, property);
  return own === undefined || allowsStrings(own, schema, 0);
}

function allowsStrings(schema: unknown, root: unknown, depth: number): boolean {
  if (typeof schema !== 'object' || schema === null || depth > MAX_DEPTH) return true;
  const allows = (part: unknown) => allowsStrings(part, root, depth + 1);
  const type = getMember(schema, 'type');
  if (typeof type === 'string' && type !== 'string') return false;
  if (Array.isArray(type) && !type.includes('string')) return false;
  const constant = getMember(schema, 'const');
  if (constant !== undefined && typeof constant !== 'string') return false;
  const values = getMember(schema, 'enum');
  if (Array.isArray(values) && !values.some((value) => typeof value === 'string')) return false;
  const reference = getMember(schema, '$ref');
  if (typeof reference === 'string' && !allows(resolveReference(reference, root))) return false;
  const every = getMember(schema, 'allOf');
  if (Array.isArray(every) && !every.every(allows)) return false;
  return [getMember(schema, 'anyOf'), getMember(schema, 'oneOf')].every(
    (options) => !Array.isArray(options) || options.some(allows),
  );
}

/** Resolves a reference within the schema (`#/$defs/x`); undefined for others. */
function resolveReference(reference: string, root: unknown): unknown {
  if (!reference.startsWith('#/')) return undefined;
  return reference
    .slice(2)
    .split('/')
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce(getMember, root);
}

function getMember(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null
    ? Object.entries(value).find(([name]) => name === key)?.[1]
    : undefined;
}

/**
 * Builds the arguments of a call: `--params`, overridden by each `--param NAME=VALUE`. A value is a string where the
 * schema of the tool allows strings or specifies no type, and JSON otherwise; `@FILE` reads the value from a file. Numbers
 * keep their spelling. Throws {@link Failure}.
 */
export async function toolArguments(
  pairs: readonly string[],
  params: string | undefined,
  schema: unknown,
  cwd: string,
): Promise<JsonObject> {
  const result: JsonObject = params === undefined ? {} : parseObject(await readValue('--params', params, cwd));
  const seen = new Set<string>();
  for (const pair of pairs) {
    const { name, text } = await namedValue('--param', pair, cwd);
    if (seen.has(name)) throw new Failure(`--param ${name}: given twice; write a list as JSON: '${name}=["a","b"]'`);
    seen.add(name);
    result[name] = convertArgument(name, text, schema);
  }
  return result;
}

/** Builds the arguments of a prompt, which are all strings. Throws {@link Failure}. */
export async function promptArguments(pairs: readonly string[], cwd: string): Promise<Record<string, string>> {
  const values = await Promise.all(pairs.map((pair) => namedValue('--arg', pair, cwd)));
  const twice = values.find(({ name }, at) => values.findIndex((other) => other.name === name) !== at);
  if (twice !== undefined) throw new Failure(`--arg ${twice.name}: given twice`);
  return Object.fromEntries(values.map(({ name, text }) => [name, text]));
}

async function namedValue(option: string, pair: string, cwd: string) {
  const [, name, value] = /^([^=]+)=(.*)$/s.exec(pair) ?? [];
  if (name === undefined || value === undefined) throw new Failure(`${option} "${pair}": expected NAME=VALUE`);
  return { name, text: await readValue(`${option} ${name}`, value, cwd) };
}

async function readValue(option: string, value: string, cwd: string): Promise<string> {
  if (!value.startsWith('@')) return value;
  const path = resolve(cwd, value.slice(1));
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    throw new Failure(`${option}: ${path} cannot be read: ${errorReason(error) ?? error}`, { cause: error });
  }
}

function parseObject(text: string): JsonObject {
  const value = parseJson('--params', text);
  if (!isJsonObject(value)) throw new Failure('--params: expected a JSON object');
  return value;
}

function convertArgument(name: string, text: string, schema: unknown): JsonValue {
  return acceptsStrings(schema, name) ? text : parseJson(`--param ${name}: the tool does not take a string here`, text);
}

function parseJson(option: string, text: string): JsonValue {
  try {
    return parseLossless(text);
  } catch (error) {
    throw new Failure(`${option}: invalid JSON (${error instanceof Error ? error.message : error})`, { cause: error });
  }
}

import { isJsonObject, type JsonObject, parseJson } from '@sluice/protocol/json/parse';
import { ellipsize } from '@sluice/protocol/text';
import { Ajv, type ErrorObject, type Options, type ValidateFunction } from 'ajv';
import { Ajv2019 } from 'ajv/dist/2019.js';
import { Ajv2020 } from 'ajv/dist/2020.js';
import draft6 from 'ajv/dist/refs/json-schema-draft-06.json' with { type: 'json' };
import draft4 from 'ajv-draft-04';
import addFormats from 'ajv-formats';
import type { SchemaJob, SchemaReply } from './result-schema.ts';

/** Compiled schemas that are cached. */
const MAX_SCHEMAS = 200;
/** Maximum length of the problem of an unusable schema. */
const MAX_PROBLEM_CHARACTERS = 1000;

/** Compiles result schemas and validates texts, one job at a time. */
export class SchemaWorkerHandler {
  readonly #compiler = new SchemaCompiler();
  /** Most recently used last. */
  readonly #schemas = new Map<string, ValidateFunction>();

  handle(job: SchemaJob): SchemaReply {
    return job.kind === 'compile' ? this.#compile(job.key, job.schema) : this.#validate(job.key, job.text);
  }

  #compile(key: string, schema: string): SchemaReply {
    try {
      this.#cache(key, this.#compiler.compile(schema));
      return { kind: 'valid' };
    } catch (error) {
      if (error instanceof UnusableSchemaError) {
        return { kind: 'invalid', problem: truncateText(error.message, MAX_PROBLEM_CHARACTERS) };
      }
      if (error instanceof RangeError) return { kind: 'invalid', problem: 'is nested too deeply' };
      throw error;
    }
  }

  #validate(key: string, text: string): SchemaReply {
    const validate = this.#schemas.get(key);
    if (validate === undefined) return { kind: 'unknown' };
    this.#cache(key, validate);
    let value: unknown;
    try {
      value = parseJson(stripCodeFence(stripThinking(text)), Number.POSITIVE_INFINITY);
    } catch {
      return { kind: 'invalid', problem: 'the text is not JSON' };
    }
    try {
      if (validate(value) === true) return { kind: 'valid' };
      return { kind: 'invalid', problem: formatErrors(validate.errors ?? []) };
    } catch (error) {
      if (error instanceof RangeError) return { kind: 'invalid', problem: 'the text is nested too deeply' };
      throw error;
    } finally {
      // The errors retain the value.
      validate.errors = null;
    }
  }

  #cache(key: string, validate: ValidateFunction): void {
    this.#schemas.delete(key);
    this.#schemas.set(key, validate);
    for (const oldest of this.#schemas.keys()) {
      if (this.#schemas.size <= MAX_SCHEMAS) return;
      this.#schemas.delete(oldest);
    }
  }
}

const THINKING = '<think>';
const THINKING_END = '</think>';

/** Removes the thinking that some models put before their answer. */
function stripThinking(text: string): string {
  if (!text.trimStart().startsWith(THINKING)) return text;
  const end = text.indexOf(THINKING_END);
  return end === -1 ? text : text.slice(end + THINKING_END.length);
}

const OPENING_FENCE = /^(`{3,}|~{3,})[^\n]*\n/;

/** Removes a Markdown code fence that surrounds the whole text. */
function stripCodeFence(text: string): string {
  const trimmed = text.trim();
  const [opening, marks] = OPENING_FENCE.exec(trimmed) ?? [];
  if (opening === undefined || marks === undefined) return text;
  const end = trimmed.length - marks.length;
  // The closing marks are on a line of their own, which may follow the opening.
  const isClosed = end >= opening.length && trimmed.endsWith(`\n${marks}`);
  return isClosed ? trimmed.slice(opening.length, end) : text;
}

/** Reported errors of one value, and characters of each. */
const MAX_ERRORS = 10;
const MAX_ERROR_CHARACTERS = 300;

/** Formats validation errors, joined with `; `: paths and messages, without values. */
function formatErrors(errors: readonly ErrorObject[]): string {
  return errors.slice(0, MAX_ERRORS).map(formatError).join('; ');
}

function formatError({ instancePath, keyword, params, message = `does not match "${keyword}"` }: ErrorObject): string {
  // These values are part of the schema.
  const allowed = keyword === 'enum' ? `: ${JSON.stringify(params.allowedValues).slice(1, -1)}` : '';
  return truncateText(`${instancePath === '' ? '/' : instancePath} ${message}${allowed}`, MAX_ERROR_CHARACTERS);
}

function truncateText(text: string, maxCharacters: number): string {
  return text.length <= maxCharacters ? text : ellipsize(text, maxCharacters - 1, '…');
}

/** A schema that cannot be used; the message is a predicate about the schema. */
class UnusableSchemaError extends Error {}

type Validator = Pick<Ajv, 'compile' | 'validateSchema' | 'errors'>;
type CreateValidator = (options: Options) => Validator;

/** Unknown keywords and formats are ignored, as JSON Schema specifies. */
const OPTIONS: Options = { strict: false, allErrors: true, ownProperties: true, logger: false };
/** For a schema that has been validated and has no remote references. */
const COMPILE_OPTIONS: Options = { ...OPTIONS, meta: false, validateSchema: false };

const DEFAULT_DIALECT = 'https://json-schema.org/draft/2020-12/schema';

/** By the URI in `$schema`. */
const DIALECTS: ReadonlyMap<string, CreateValidator> = new Map<string, CreateValidator>([
  [DEFAULT_DIALECT, (options) => addFormats.default(new Ajv2020(options))],
  ['https://json-schema.org/draft/2019-09/schema', (options) => addFormats.default(new Ajv2019(options))],
  ['http://json-schema.org/draft-07/schema', (options) => addFormats.default(new Ajv(options))],
  ['http://json-schema.org/draft-06/schema', (options) => addFormats.default(createDraft6(options))],
  ['http://json-schema.org/draft-04/schema', (options) => addFormats.default(new draft4.default(options))],
]);

/** Values that a circular schema is detected with: one of each type. */
const SAMPLES: readonly unknown[] = [{}, [], '', 0, true, null];

/** Compiles JSON Schemas of drafts 4 to 2020-12, each on its own: their ids cannot collide. */
class SchemaCompiler {
  /** Validators of schemas by dialect. */
  readonly #metaValidators = new Map<string, Validator>();

  constructor() {
    // Created in advance, since most schemas use it.
    this.#checkSchema({}, DEFAULT_DIALECT, validatorFactory(DEFAULT_DIALECT));
  }

  /** Throws {@link UnusableSchemaError}. */
  compile(text: string): ValidateFunction {
    const schema: unknown = JSON.parse(text);
    if (typeof schema !== 'boolean' && !isJsonObject(schema)) {
      throw new UnusableSchemaError('is neither an object nor a boolean');
    }
    const dialect = dialectOf(schema);
    const create = validatorFactory(dialect);
    if (typeof schema !== 'boolean') this.#checkSchema(schema, dialect, create);
    const remote = findRemoteReference(schema);
    if (remote !== undefined) {
      throw new UnusableSchemaError(`has a remote reference (${remote}), which is not supported`);
    }
    const validate = compileWith(create(COMPILE_OPTIONS), schema);
    // An asynchronous validator returns a promise, which would count as valid.
    if ('$async' in validate) throw new UnusableSchemaError('has "$async", which is not supported');
    rejectCircular(validate);
    return validate;
  }

  #checkSchema(schema: JsonObject, dialect: string, create: CreateValidator): void {
    const validator = this.#metaValidators.getOrInsertComputed(dialect, () => create(OPTIONS));
    if (validator.validateSchema({ ...schema, $schema: dialect }) === true) return;
    throw new UnusableSchemaError(`is not a valid JSON Schema (${dialect}): ${formatErrors(validator.errors ?? [])}`);
  }
}

function dialectOf(schema: JsonObject | boolean): string {
  const uri = typeof schema === 'boolean' ? undefined : schema.$schema;
  if (uri === undefined) return DEFAULT_DIALECT;
  if (typeof uri !== 'string') throw new UnusableSchemaError('has a "$schema" that is not a string');
  const normalized = withoutScheme(uri).replace(/#$/, '');
  for (const dialect of DIALECTS.keys()) if (withoutScheme(dialect) === normalized) return dialect;
  const supported = [...DIALECTS.keys()].join(', ');
  throw new UnusableSchemaError(`has an unsupported "$schema" (${uri}); supported: ${supported}`);
}

function withoutScheme(uri: string): string {
  return uri.replace(/^https?:/, '');
}

function validatorFactory(dialect: string): CreateValidator {
  const create = DIALECTS.get(dialect);
  if (create === undefined) throw new UnusableSchemaError(`has an unsupported "$schema" (${dialect})`);
  return create;
}

/** Ajv has no class for draft 6: draft 7 without its new keywords. */
function createDraft6(options: Options): Ajv {
  const validator = new Ajv(options);
  for (const keyword of ['if', 'then', 'else']) validator.removeKeyword(keyword);
  return options.meta === false ? validator : validator.addMetaSchema(draft6);
}

function compileWith(validator: Validator, schema: JsonObject | boolean): ValidateFunction {
  try {
    return validator.compile(schema);
  } catch (cause) {
    throw new UnusableSchemaError(cause instanceof Error ? cause.message : 'cannot be compiled', { cause });
  }
}

/**
 * Rejects schemas that compile and never terminate: a `$ref` that resolves to itself for the same value, and a
 * `$dynamicRef` to an anchor of a subschema, which Ajv resolves to the schema itself.
 */
function rejectCircular(validate: ValidateFunction): void {
  try {
    for (const sample of SAMPLES) validate(sample);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new UnusableSchemaError(
      'has a circular reference: a $ref must not lead back to itself for the same value; ' +
        'use $ref with a path (#/$defs/...) instead of $dynamicRef and $recursiveRef',
      { cause: error },
    );
  } finally {
    validate.errors = null;
  }
}

/** Base URI of a schema without an id. */
const DEFAULT_BASE = 'schema:///';
const REFERENCE_KEYWORDS = ['$ref', '$dynamicRef', '$recursiveRef'];
/** Keywords whose values are not schemas. */
const DATA_KEYWORDS: ReadonlySet<string> = new Set(['const', 'enum', 'default', 'examples']);

/** Returns the first reference of a schema to another document, as written; undefined if there is none. */
function findRemoteReference(schema: unknown): string | undefined {
  const ownUris = new Set([DEFAULT_BASE]);
  const references: [reference: string, base: string][] = [];
  collectReferences(schema, DEFAULT_BASE, ownUris, references);
  const [remote] = references.find(([reference, base]) => !isLocal(ownUris, reference, base)) ?? [];
  return remote;
}

function collectReferences(
  value: unknown,
  parentBase: string,
  ownUris: Set<string>,
  references: [reference: string, base: string][],
): void {
  if (Array.isArray(value)) {
    for (const each of value) collectReferences(each, parentBase, ownUris, references);
  }
  if (!isJsonObject(value)) return;
  const id = value.$id ?? value.id;
  const base = (typeof id === 'string' ? resolveUri(id, parentBase) : undefined) ?? parentBase;
  ownUris.add(base);
  for (const [keyword, member] of Object.entries(value)) {
    if (typeof member === 'string' && REFERENCE_KEYWORDS.includes(keyword)) references.push([member, base]);
    else if (!DATA_KEYWORDS.has(keyword)) collectReferences(member, base, ownUris, references);
  }
}

function isLocal(ownUris: ReadonlySet<string>, reference: string, base: string): boolean {
  if (reference.startsWith('#')) return true;
  const uri = resolveUri(reference, base);
  return uri !== undefined && ownUris.has(uri);
}

/** Resolves a URI and removes its fragment; undefined if it is invalid. */
function resolveUri(reference: string, base: string): string | undefined {
  if (!URL.canParse(reference, base)) return undefined;
  const url = new URL(reference, base);
  url.hash = '';
  return url.href;
}

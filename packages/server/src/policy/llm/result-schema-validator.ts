import { isJsonObject, type JsonObject, parseJson } from '@sluice/protocol/json/parse';
import { Ajv, type ErrorObject, type Options, type ValidateFunction } from 'ajv';
import { Ajv2019 } from 'ajv/dist/2019.js';
import { Ajv2020 } from 'ajv/dist/2020.js';
import draft6 from 'ajv/dist/refs/json-schema-draft-06.json' with { type: 'json' };
import draft4 from 'ajv-draft-04';
import addFormats from 'ajv-formats';
import type { SchemaJob, SchemaReply } from './result-schema.ts';

const OPENING = /^(`{3,}|~{3,})[^\n]*\n/;

/** A text without the one Markdown code fence that may surround all of it; another text as it is (decisions 4.9). */
export function withoutFence(text: string): string {
  const trimmed = text.trim();
  const [opening, marks] = OPENING.exec(trimmed) ?? [];
  if (opening === undefined || marks === undefined) return text;
  const end = trimmed.length - marks.length;
  // The closing marks stand on a line of their own, which may be the one after the opening.
  const isClosed = end >= opening.length && trimmed.endsWith(`\n${marks}`);
  return isClosed ? trimmed.slice(opening.length, end) : text;
}

/** Errors that are told of one value, and characters of each. */
const MOST_ERRORS = 10;
const LONGEST_ERROR = 300;

/** What is wrong with a value by a schema, joined with `; `: where it is and what, never the value itself. */
export function errorsText(errors: readonly ErrorObject[]): string {
  return errors.slice(0, MOST_ERRORS).map(errorText).join('; ');
}

/** A text of so many characters at most. */
export function cut(text: string, longest: number): string {
  return text.length <= longest ? text : `${text.slice(0, longest - 1).toWellFormed()}…`;
}

function errorText({ instancePath, keyword, params, message = `does not fit "${keyword}"` }: ErrorObject): string {
  // They are the schema's.
  const allowed = keyword === 'enum' ? `: ${JSON.stringify(params.allowedValues).slice(1, -1)}` : '';
  return cut(`${instancePath === '' ? '/' : instancePath} ${message}${allowed}`, LONGEST_ERROR);
}

/** The address that a schema without one has. */
const NOWHERE = 'schema:///';
const REFERENCES = ['$ref', '$dynamicRef', '$recursiveRef'];
/** Keywords whose values are no schemas. */
const DATA: ReadonlySet<string> = new Set(['const', 'enum', 'default', 'examples']);

/** The first reference of a schema that leads out of it, as it is spelled; undefined when all stay inside. */
export function remoteReference(schema: unknown): string | undefined {
  const own = new Set([NOWHERE]);
  const references: [spelled: string, base: string][] = [];
  collect(schema, NOWHERE, own, references);
  const [found] = references.find(([spelled, base]) => !isWithin(own, spelled, base)) ?? [];
  return found;
}

function collect(value: unknown, outer: string, own: Set<string>, references: [string, string][]): void {
  if (Array.isArray(value)) {
    for (const each of value) collect(each, outer, own, references);
  }
  if (!isJsonObject(value)) return;
  const id = value.$id ?? value.id;
  const base = (typeof id === 'string' ? resolved(id, outer) : undefined) ?? outer;
  own.add(base);
  for (const [keyword, member] of Object.entries(value)) {
    if (typeof member === 'string' && REFERENCES.includes(keyword)) references.push([member, base]);
    else if (!DATA.has(keyword)) collect(member, base, own, references);
  }
}

function isWithin(own: ReadonlySet<string>, spelled: string, base: string): boolean {
  if (spelled.startsWith('#')) return true;
  const address = resolved(spelled, base);
  return address !== undefined && own.has(address);
}

/** An address without its fragment; undefined when it is none. */
function resolved(spelled: string, base: string): string | undefined {
  if (!URL.canParse(spelled, base)) return undefined;
  const url = new URL(spelled, base);
  url.hash = '';
  return url.href;
}

/** Why a schema cannot be used; the message completes a sentence that begins with `the schema`. */
export class UnusableSchema extends Error {}

type Validator = Pick<Ajv, 'compile' | 'validateSchema' | 'errors'>;
type Make = (options: Options) => Validator;

/** Unknown keywords and formats have no meaning, as JSON Schema has it. */
const OPTIONS: Options = { strict: false, allErrors: true, ownProperties: true, logger: false };
/** For a schema that has been checked already, and refers to nothing outside. */
const ALONE: Options = { ...OPTIONS, meta: false, validateSchema: false };

const DEFAULT_DIALECT = 'https://json-schema.org/draft/2020-12/schema';

/** A value of each type. */
const SAMPLES: readonly unknown[] = [{}, [], '', 0, true, null];

/** How validators are made, by the address in `$schema`. */
const DIALECTS: ReadonlyMap<string, Make> = new Map<string, Make>([
  [DEFAULT_DIALECT, (options) => addFormats.default(new Ajv2020(options))],
  ['https://json-schema.org/draft/2019-09/schema', (options) => addFormats.default(new Ajv2019(options))],
  ['http://json-schema.org/draft-07/schema', (options) => addFormats.default(new Ajv(options))],
  ['http://json-schema.org/draft-06/schema', (options) => addFormats.default(sixth(options))],
  ['http://json-schema.org/draft-04/schema', (options) => addFormats.default(new draft4.default(options))],
]);

/** Compiles JSON Schemas of the drafts 4 to 2020-12 (decisions 4.5), each for itself: their ids do not meet. */
export class SchemaDialects {
  /** What checks schemas, by dialect. */
  readonly #checkers = new Map<string, Validator>();

  constructor() {
    // The one that is wanted most takes its time now.
    this.#check({}, DEFAULT_DIALECT, maker(DEFAULT_DIALECT));
  }

  /** Throws {@link UnusableSchema}. */
  compile(text: string): ValidateFunction {
    const schema: unknown = JSON.parse(text);
    if (typeof schema !== 'boolean' && !isJsonObject(schema)) {
      throw new UnusableSchema('is neither an object nor a boolean');
    }
    const dialect = dialectOf(schema);
    const make = maker(dialect);
    if (typeof schema !== 'boolean') this.#check(schema, dialect, make);
    const remote = remoteReference(schema);
    if (remote !== undefined) {
      throw new UnusableSchema(`refers to another document (${remote}): only what is in the schema itself can be used`);
    }
    const validate = compiled(schema, make(ALONE));
    // Such a function returns a promise, which would pass for a yes.
    if ('$async' in validate) throw new UnusableSchema('has "$async", which is not supported: leave it out');
    refuseEndless(validate);
    return validate;
  }

  #check(schema: JsonObject, dialect: string, make: Make): void {
    let checker = this.#checkers.get(dialect);
    if (checker === undefined) {
      checker = make(OPTIONS);
      this.#checkers.set(dialect, checker);
    }
    if (checker.validateSchema({ ...schema, $schema: dialect }) === true) return;
    throw new UnusableSchema(`is no JSON Schema (${dialect}): ${errorsText(checker.errors ?? [])}`);
  }
}

function dialectOf(schema: JsonObject | boolean): string {
  const named = typeof schema === 'boolean' ? undefined : schema.$schema;
  if (named === undefined) return DEFAULT_DIALECT;
  if (typeof named !== 'string') throw new UnusableSchema('has a "$schema" that is no text');
  const address = withoutScheme(named).replace(/#$/, '');
  for (const dialect of DIALECTS.keys()) if (withoutScheme(dialect) === address) return dialect;
  const known = [...DIALECTS.keys()].join(', ');
  throw new UnusableSchema(`names an unknown draft in "$schema" (${named}); known are ${known}`);
}

function withoutScheme(address: string): string {
  return address.replace(/^https?:/, '');
}

function maker(dialect: string): Make {
  const make = DIALECTS.get(dialect);
  if (make === undefined) throw new UnusableSchema(`is of an unknown draft (${dialect})`);
  return make;
}

function sixth(options: Options): Ajv {
  const validator = new Ajv(options);
  for (const later of ['if', 'then', 'else']) validator.removeKeyword(later);
  return options.meta === false ? validator : validator.addMetaSchema(draft6);
}

function compiled(schema: JsonObject | boolean, validator: Validator): ValidateFunction {
  try {
    return validator.compile(schema);
  } catch (cause) {
    throw new UnusableSchema(cause instanceof Error ? cause.message : 'cannot be compiled', { cause });
  }
}

/**
 * What follows references in a circle, whatever it judges, compiles all the same: a `$ref` that leads back to itself, and
 * a `$dynamicRef` to an anchor of a subschema, which the validator takes for the schema itself.
 */
function refuseEndless(validate: ValidateFunction): void {
  try {
    for (const sample of SAMPLES) validate(sample);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new UnusableSchema(
      'comes to no end when it judges a value: let no $ref lead back to itself without going into the value, ' +
        'and write $ref with the place of a definition (#/$defs/...) for $dynamicRef and $recursiveRef',
      { cause: error },
    );
  } finally {
    validate.errors = null;
  }
}

/** Schemas that are kept compiled: those that were used last. */
const MOST_SCHEMAS = 200;
/** Characters of why a schema cannot be used. */
const LONGEST_REFUSAL = 1000;

/** Compiles result schemas and judges texts by them (decisions 4.9, "result_schema"), one job at a time. */
export class SchemaWorkerHandler {
  readonly #dialects = new SchemaDialects();
  /** The one used last stands last. */
  readonly #schemas = new Map<string, ValidateFunction>();

  carryOut(job: SchemaJob): SchemaReply {
    return job.kind === 'compile' ? this.#compile(job.key, job.schema) : this.#validate(job.key, job.text);
  }

  #compile(key: string, schema: string): SchemaReply {
    try {
      this.#keep(key, this.#dialects.compile(schema));
      return { kind: 'fine' };
    } catch (error) {
      if (error instanceof UnusableSchema) return refused(error.message, LONGEST_REFUSAL);
      if (error instanceof RangeError) return refused('is nested too deeply', LONGEST_REFUSAL);
      throw error;
    }
  }

  #validate(key: string, text: string): SchemaReply {
    const validate = this.#schemas.get(key);
    if (validate === undefined) return { kind: 'unknown' };
    this.#keep(key, validate);
    let value: unknown;
    try {
      value = parseJson(withoutFence(text));
    } catch {
      return { kind: 'refused', problem: 'the text is not JSON' };
    }
    try {
      if (validate(value) === true) return { kind: 'fine' };
      return { kind: 'refused', problem: errorsText(validate.errors ?? []) };
    } catch (error) {
      if (error instanceof RangeError) return { kind: 'refused', problem: 'the text is nested too deeply' };
      throw error;
    } finally {
      // They refer to the value.
      validate.errors = null;
    }
  }

  #keep(key: string, validate: ValidateFunction): void {
    this.#schemas.delete(key);
    this.#schemas.set(key, validate);
    for (const oldest of this.#schemas.keys()) {
      if (this.#schemas.size <= MOST_SCHEMAS) return;
      this.#schemas.delete(oldest);
    }
  }
}

function refused(problem: string, longest: number): SchemaReply {
  return { kind: 'refused', problem: cut(problem, longest) };
}

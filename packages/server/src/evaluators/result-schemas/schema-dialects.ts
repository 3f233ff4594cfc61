import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { Ajv, type Options, type ValidateFunction } from 'ajv';
import { Ajv2019 } from 'ajv/dist/2019.js';
import { Ajv2020 } from 'ajv/dist/2020.js';
import draft6 from 'ajv/dist/refs/json-schema-draft-06.json' with { type: 'json' };
import draft4 from 'ajv-draft-04';
import addFormats from 'ajv-formats';
import { errorsText } from './errors-text.ts';
import { remoteReference } from './remote-reference.ts';

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

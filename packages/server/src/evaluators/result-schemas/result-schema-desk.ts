import { parseJson } from '@sluice/protocol/json/parse';
import type { ValidateFunction } from 'ajv';
import { withoutFence } from './code-fence.ts';
import { cut, errorsText } from './errors-text.ts';
import type { SchemaJob, SchemaReply } from './result-schema-job.ts';
import { SchemaDialects, UnusableSchema } from './schema-dialects.ts';

/** Schemas that are kept compiled: those that were used last. */
const MOST_SCHEMAS = 200;
/** Characters of why a schema cannot be used. */
const LONGEST_REFUSAL = 1000;

/** Compiles result schemas and judges texts by them (decisions 4.9, "result_schema"), one job at a time. */
export class ResultSchemaDesk {
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

import { z } from 'zod';

/** A JSON Schema (2020-12), as OpenAPI 3.1 has it. */
export type Schema = z.core.JSONSchema.BaseSchema;

/**
 * Collects the schemas that have a name (`.meta({ id })`), so that the document says each once and refers to it.
 */
export class NamedSchemas {
  readonly #named = new Map<string, Schema>();

  /** The collected schemas, by name. */
  get all(): Record<string, Schema> {
    return Object.fromEntries([...this.#named].sort(([a], [b]) => (a < b ? -1 : 1)));
  }

  /** A body that is sent. */
  sent(schema: z.ZodType): Schema {
    return this.#convert(schema, 'input');
  }

  /** A payload that is answered. */
  answered(schema: z.ZodType): Schema {
    return this.#convert(schema, 'output');
  }

  #convert(schema: z.ZodType, io: 'input' | 'output'): Schema {
    const {
      $defs = {},
      $schema: _dialect,
      ...converted
    } = z.toJSONSchema(schema, {
      io,
      // What stands for anything at all has no shape to describe.
      unrepresentable: 'any',
      override: ({ jsonSchema }) => simplify(jsonSchema, io),
    });
    const { id } = converted;
    for (const [name, definition] of Object.entries($defs)) this.#named.set(name, refer(definition));
    if (id === undefined) return refer(converted);
    this.#named.set(id, refer(converted));
    return { $ref: `#/components/schemas/${id}` };
  }
}

/**
 * The API grows by adding members (decisions 9), so that no answer may be described as closed. A body is where it really
 * refuses others.
 */
function simplify(schema: Schema, io: 'input' | 'output'): void {
  if (io === 'output' && schema.additionalProperties === false) delete schema.additionalProperties;
  // Says only that the type's own code may not change it.
  delete schema.readOnly;
  if (schema.type !== 'integer') return;
  if (schema.minimum === Number.MIN_SAFE_INTEGER) delete schema.minimum;
  if (schema.maximum === Number.MAX_SAFE_INTEGER) delete schema.maximum;
}

/** Turns references within one schema into references within the document, and drops the names, which are keys there. */
function refer({ id: _id, ...schema }: Schema): Schema {
  const text = JSON.stringify(schema).replaceAll('"#/$defs/', '"#/components/schemas/');
  const referring: Schema = JSON.parse(text);
  return referring;
}

import { z } from 'zod';

/** JSON Schema 2020-12, as used by OpenAPI 3.1. */
export type Schema = z.core.JSONSchema.BaseSchema;

/** Converts Zod schemas to JSON Schema and collects those with an id (`.meta({ id })`) as components. */
export class ComponentSchemas {
  readonly #named = new Map<string, Schema>();

  /** Collected schemas, sorted by id. */
  get all(): Record<string, Schema> {
    return Object.fromEntries([...this.#named].sort(([a], [b]) => (a < b ? -1 : 1)));
  }

  /** Returns the schema of a request body. */
  requestSchema(schema: z.ZodType): Schema {
    return this.#convert(schema, 'input');
  }

  /** Returns the schema of a response payload. */
  responseSchema(schema: z.ZodType): Schema {
    return this.#convert(schema, 'output');
  }

  #convert(schema: z.ZodType, io: 'input' | 'output'): Schema {
    const {
      $defs = {},
      $schema: _dialect,
      ...converted
    } = z.toJSONSchema(schema, {
      io,
      // Custom schemas, such as any JSON value, become {}.
      unrepresentable: 'any',
      override: ({ jsonSchema }) => simplify(jsonSchema, io),
    });
    const { id } = converted;
    for (const [name, definition] of Object.entries($defs)) this.#named.set(name, rewriteReferences(definition));
    if (id === undefined) return rewriteReferences(converted);
    this.#named.set(id, rewriteReferences(converted));
    return { $ref: `#/components/schemas/${id}` };
  }
}

/**
 * Removes keywords that do not apply. Responses stay open, because the API may add members; a request body is closed if it
 * rejects unknown members.
 */
function simplify(schema: Schema, io: 'input' | 'output'): void {
  if (io === 'output' && schema.additionalProperties === false) delete schema.additionalProperties;
  // Zod's readonly concerns TypeScript only.
  delete schema.readOnly;
  // No format of JSON Schema; the pattern says the same.
  if (schema.format?.startsWith('cidr')) delete schema.format;
  if (schema.type !== 'integer') return;
  if (schema.minimum === Number.MIN_SAFE_INTEGER) delete schema.minimum;
}

/** Points references to the document's components and removes the id, which becomes the component's key. */
function rewriteReferences({ id: _id, ...schema }: Schema): Schema {
  const text = JSON.stringify(schema).replaceAll('"#/$defs/', '"#/components/schemas/');
  const rewritten: Schema = JSON.parse(text);
  return rewritten;
}

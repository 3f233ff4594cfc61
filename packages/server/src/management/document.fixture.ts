import type { Operation } from '@sluice/contract';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { expect } from 'vitest';
import type { Answered, Api } from './api.fixture.ts';

/** The parts of a JSON Schema that tests use. */
interface SchemaObject {
  readonly $ref?: string;
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, object>>;
}

interface Content {
  readonly content: { readonly 'application/json': { readonly schema: SchemaObject } };
}

interface Response extends Partial<Content> {
  readonly $ref?: string;
  readonly headers?: object;
}

interface DocumentedOperation {
  readonly operationId: string;
  readonly requestBody?: Content;
  readonly responses: Readonly<Record<string, Response>>;
}

interface OpenApi {
  readonly paths: Readonly<Record<string, Readonly<Record<string, DocumentedOperation>>>>;
  readonly components: {
    readonly schemas: Readonly<Record<string, SchemaObject>>;
    readonly responses: Readonly<Record<string, Response>>;
  };
}

/** `/openapi.json` as served by an API, to validate its responses. */
export class ServedDocument {
  readonly content: OpenApi;
  readonly #ajv = addFormats.default(new Ajv2020({ strict: false }));

  private constructor(text: string) {
    this.content = JSON.parse(text);
    this.#ajv.addSchema(JSON.parse(text), 'document');
  }

  /** Reads the document. */
  static async of(api: Api): Promise<ServedDocument> {
    return new ServedDocument((await api.call('GET', '/openapi.json')).text);
  }

  /** The schema of the request body of an operation. */
  bodyOf({ path, method }: Operation): SchemaObject {
    const body = this.#operation(path, method).requestBody;
    if (!body) throw new Error(`${method} ${path} has no body in the document`);
    const { schema } = body.content['application/json'];
    return this.content.components.schemas[lastOf(schema.$ref)] ?? schema;
  }

  /** Whether a value is valid for a schema of the document. */
  accepts(schema: object, value: unknown): boolean {
    // Its references are to the document.
    const text = JSON.stringify(schema).replaceAll('"$ref":"#', '"$ref":"document#');
    return this.#ajv.validate(JSON.parse(text), value) === true;
  }

  /** Fails unless the operation declares the status of the response, with its content type, schema and headers. */
  expectDeclared({ path, method }: Operation, { status, text, headers }: Answered): void {
    const where = `${method} ${path} ${status}: ${text}`;
    const declared = this.#operation(path, method).responses[status];
    const response = this.content.components.responses[lastOf(declared?.$ref)] ?? declared;
    if (!response?.content) throw new Error(`not declared: ${where}`);
    expect(headers['content-type'], where).toBe('application/json');
    for (const header of Object.keys(response.headers ?? {})) {
      expect(headers, where).toHaveProperty(header.toLowerCase());
    }
    expect(this.accepts(response.content['application/json'].schema, JSON.parse(text)), where).toBe(true);
  }

  #operation(path: string, method: string): DocumentedOperation {
    const found = this.content.paths[path]?.[method.toLowerCase()];
    if (!found) throw new Error(`not in the document: ${method} ${path}`);
    return found;
  }
}

/** The name at the end of a reference. */
function lastOf(reference = ''): string {
  return reference.split('/').at(-1) ?? '';
}

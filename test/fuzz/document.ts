import { STATUS_CODES } from 'node:http';

/** A JSON object of the document, such as a JSON Schema. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** A parameter of an operation, in its path or in its query. */
export interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly schema: JsonObject;
}

/** Documented response with one status. */
export interface DocumentedResponse {
  /** JSON pointer to the schema of the body. */
  readonly schema: string;
  /** Undefined for a response without a body. */
  readonly contentType: string | undefined;
  /** Names of its required headers. */
  readonly headers: readonly string[];
}

/** One operation of the document. */
export interface Operation {
  readonly id: string;
  readonly method: string;
  /** With parameters in braces. */
  readonly path: string;
  /** The path up to its first parameter: the collection of an item. */
  readonly collection: string;
  readonly parameters: readonly Parameter[];
  /** Schema of its body, the JSON pointer to it, and whether a body is required. */
  readonly body: { readonly pointer: string; readonly schema: JsonObject; readonly required: boolean } | undefined;
  readonly responses: ReadonlyMap<number, DocumentedResponse>;
}

/** Paths whose responses are not those of the management API. */
const PAGES = /^\/(?:metrics$|admin(?:\/|$)|api\/docs(?:\/|$)|api\/v1\/namespaces\/\{name\}\/mcp$)/;

/** An OpenAPI document, as the only description of the service for the client. */
export class ApiDocument {
  readonly operations: readonly Operation[];
  readonly root: JsonObject;

  /** Throws if `document` is not an OpenAPI document, or uses an unsupported feature. */
  constructor(document: unknown) {
    this.root = object(document, '');
    const operations: Operation[] = [];
    for (const [path, item] of Object.entries(object(this.root.paths, '/paths'))) {
      // Pages, metrics and MCP have tests of their own, and so have paths of the legacy backend.
      if (PAGES.test(path) || '$ref' in object(item, path)) continue;
      for (const [method, each] of Object.entries(object(item, path))) {
        const operation = object(each, `${method} ${path}`);
        if (operation.operationId !== undefined) operations.push(this.#operation(path, method, operation));
      }
    }
    this.operations = operations;
  }

  /** Resolves a JSON pointer (`#/…`) to an object. */
  at(pointer: string): JsonObject {
    let found: unknown = this.root;
    for (const key of pointer.split('/').slice(1)) {
      found = object(found, pointer)[key.replaceAll('~1', '/').replaceAll('~0', '~')];
    }
    return object(found, pointer);
  }

  /** Resolves the reference of a schema, if it is one. */
  resolve(schema: JsonObject): JsonObject {
    const { $ref, ...beside } = schema;
    return typeof $ref === 'string' ? this.resolve({ ...this.at($ref), ...beside }) : schema;
  }

  /** Operations of a request path, by method; empty if the document does not have the path. */
  route(path: string): ReadonlyMap<string, Operation> {
    const segments = segmentsOf(path);
    const matching = this.operations.filter((operation) => matches(segmentsOf(operation.path), segments));
    return new Map(matching.map((operation) => [operation.method, operation]));
  }

  /**
   * The general response with a status, of any operation and of requests without an operation: the response component of
   * the document with the name of the status (`MethodNotAllowed`).
   */
  general(status: number): DocumentedResponse | undefined {
    const name = STATUS_CODES[status]?.replaceAll(' ', '') ?? '';
    const { responses = {} } = object(this.root.components, '/components');
    return Object.hasOwn(object(responses, '/responses'), name)
      ? this.#response(`#/components/responses/${name}`)
      : undefined;
  }

  #operation(path: string, method: string, operation: JsonObject): Operation {
    const pointer = `#/paths/${escapeKey(path)}/${method}`;
    const { parameters = [], operationId, requestBody } = operation;
    if (!Array.isArray(parameters)) throw new Error(`${pointer}: invalid parameters`);
    const bodyPointer = `${pointer}/requestBody/content/application~1json/schema`;
    const responses = Object.keys(object(operation.responses, pointer)).map(
      (status) => [Number(status), this.#response(`${pointer}/responses/${status}`)] as const,
    );
    return {
      id: String(operationId),
      method: method.toUpperCase(),
      path,
      collection: path.split('/{', 1)[0] ?? path,
      parameters: parameters
        .map((each: unknown) => {
          const parameter = object(each, pointer);
          return { name: String(parameter.name), in: String(parameter.in), schema: object(parameter.schema, pointer) };
        })
        // After it, each further request may be rejected.
        .filter(({ name }) => name !== 'lock_out'),
      body:
        requestBody === undefined
          ? undefined
          : {
              pointer: bodyPointer,
              schema: this.at(bodyPointer),
              required: object(requestBody, pointer).required === true,
            },
      responses: new Map(responses),
    };
  }

  #response(pointer: string): DocumentedResponse {
    const response = this.at(pointer);
    if (typeof response.$ref === 'string') return this.#response(response.$ref);
    const [contentType] = Object.keys(object(response.content ?? {}, pointer));
    const headers = Object.entries(object(response.headers ?? {}, pointer));
    return {
      schema: `${pointer}/content/${escapeKey(contentType ?? '')}/schema`,
      contentType,
      headers: headers.filter(([, header]) => object(header, pointer).required === true).map(([name]) => name),
    };
  }
}

/** Whether a value is a JSON object. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function object(value: unknown, where: string): JsonObject {
  if (!isObject(value)) throw new Error(`the document has no object at ${where}`);
  return value;
}

function escapeKey(key: string): string {
  return key.replaceAll('~', '~0').replaceAll('/', '~1');
}

/** Segments of a path, ignoring a trailing slash. */
function segmentsOf(path: string): readonly string[] {
  return path.replace(/(?<=.)\/$/, '').split('/');
}

function matches(template: readonly string[], path: readonly string[]): boolean {
  return (
    template.length === path.length &&
    template.every((segment, index) => segment === path[index] || segment.startsWith('{'))
  );
}

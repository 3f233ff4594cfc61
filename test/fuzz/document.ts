import { STATUS_CODES } from 'node:http';

/** A JSON object of the document, a JSON Schema for instance. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** A parameter of an operation, in its path or in its query. */
export interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly schema: JsonObject;
}

/** What the document says of the answers with one status. */
export interface DocumentedAnswer {
  /** Where the schema of the body stands in the document, as a JSON pointer. */
  readonly schema: string;
  readonly contentType: string;
  /** Names of the headers that it always has. */
  readonly headers: readonly string[];
}

/** One operation of the document. */
export interface Operation {
  readonly id: string;
  readonly method: string;
  /** With parameters in braces. */
  readonly path: string;
  /** The path up to its first parameter: what an item is in. */
  readonly collection: string;
  readonly parameters: readonly Parameter[];
  /** The schema of its body, where that stands, and whether there has to be one. */
  readonly body: { readonly pointer: string; readonly schema: JsonObject; readonly required: boolean } | undefined;
  readonly answers: ReadonlyMap<number, DocumentedAnswer>;
}

/** An OpenAPI document, as far as a client needs it that knows nothing else of the service. */
export class ApiDocument {
  readonly operations: readonly Operation[];
  readonly root: JsonObject;

  /** Throws where `document` is no OpenAPI document, or uses what is not read here. */
  constructor(document: unknown) {
    this.root = object(document, '');
    const operations: Operation[] = [];
    for (const [path, item] of Object.entries(object(this.root.paths, '/paths'))) {
      for (const [method, operation] of Object.entries(object(item, path))) {
        operations.push(this.#operation(path, method, object(operation, `${method} ${path}`)));
      }
    }
    this.operations = operations;
  }

  /** The object that a JSON pointer (`#/…`) leads to. */
  at(pointer: string): JsonObject {
    let found: unknown = this.root;
    for (const key of pointer.split('/').slice(1)) {
      found = object(found, pointer)[key.replaceAll('~1', '/').replaceAll('~0', '~')];
    }
    return object(found, pointer);
  }

  /** The schema itself, where one refers to another. */
  resolve(schema: JsonObject): JsonObject {
    const { $ref, ...beside } = schema;
    return typeof $ref === 'string' ? this.resolve({ ...this.at($ref), ...beside }) : schema;
  }

  /** The operations that the path of a request belongs to, by method; empty where the document has no such path. */
  route(path: string): ReadonlyMap<string, Operation> {
    const asked = segmentsOf(path);
    const fitting = this.operations.filter((operation) => fits(segmentsOf(operation.path), asked));
    return new Map(fitting.map((operation) => [operation.method, operation]));
  }

  /**
   * What every operation may answer with a status, and the service where it has no operation for a request: a response
   * of the document's components that is named by the status's own phrase (`MethodNotAllowed`).
   */
  general(status: number): DocumentedAnswer | undefined {
    const name = STATUS_CODES[status]?.replaceAll(' ', '') ?? '';
    const { responses = {} } = object(this.root.components, '/components');
    return Object.hasOwn(object(responses, '/responses'), name)
      ? this.#answer(`#/components/responses/${name}`)
      : undefined;
  }

  #operation(path: string, method: string, operation: JsonObject): Operation {
    const pointer = `#/paths/${escapeKey(path)}/${method}`;
    const { parameters = [], operationId, requestBody, responses } = operation;
    if (!Array.isArray(parameters)) throw new Error(`${pointer}: no parameters`);
    const bodyPointer = `${pointer}/requestBody/content/application~1json/schema`;
    const answers = Object.keys(object(responses, pointer)).map(
      (status) => [Number(status), this.#answer(`${pointer}/responses/${status}`)] as const,
    );
    return {
      id: String(operationId),
      method: method.toUpperCase(),
      path,
      collection: path.split('/{', 1)[0] ?? path,
      parameters: parameters.map((each: unknown) => {
        const parameter = object(each, pointer);
        return { name: String(parameter.name), in: String(parameter.in), schema: object(parameter.schema, pointer) };
      }),
      body:
        requestBody === undefined
          ? undefined
          : {
              pointer: bodyPointer,
              schema: this.at(bodyPointer),
              required: object(requestBody, pointer).required === true,
            },
      answers: new Map(answers),
    };
  }

  #answer(pointer: string): DocumentedAnswer {
    const answer = this.at(pointer);
    if (typeof answer.$ref === 'string') return this.#answer(answer.$ref);
    const [contentType] = Object.keys(object(answer.content, pointer));
    if (contentType === undefined) throw new Error(`${pointer}: no content`);
    const headers = Object.entries(object(answer.headers ?? {}, pointer));
    return {
      schema: `${pointer}/content/${escapeKey(contentType)}/schema`,
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

/** The segments of a path; a slash at its end makes no difference. */
function segmentsOf(path: string): readonly string[] {
  return path.replace(/(?<=.)\/$/, '').split('/');
}

function fits(template: readonly string[], path: readonly string[]): boolean {
  return (
    template.length === path.length && template.every((segment, at) => segment === path[at] || segment.startsWith('{'))
  );
}

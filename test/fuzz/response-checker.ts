import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { bodyLimit } from './bodies.ts';
import { type BodyVerdict, classifyBody } from './body-verdict.ts';
import type { ApiDocument, DocumentedResponse, Operation } from './document.ts';
import { EVENT_STREAM, eventStreamFaults } from './event-stream.ts';
import { expectation } from './expectation.ts';
import type { FuzzRequest } from './request.ts';

/** A received response. */
export interface FuzzResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
}

/** Result of the check of a response. */
export interface ResponseCheck {
  /** Operation of the request; undefined if the document has none. */
  readonly operation: Operation | undefined;
  /** One line per violated rule. */
  readonly faults: readonly string[];
  /** JSON of the response; undefined if it has none. */
  readonly json: unknown;
}

/** Checks responses against the document. */
export class ResponseChecker {
  readonly #document: ApiDocument;
  readonly #undocumentedRules: readonly RegExp[];
  readonly #ajv: Ajv2020;
  readonly #compiled = new Map<string, ValidateFunction>();

  /** `undocumentedRules` are error messages for rules that a schema cannot express. */
  constructor(document: ApiDocument, undocumentedRules: readonly RegExp[]) {
    this.#document = document;
    this.#undocumentedRules = undocumentedRules;
    this.#ajv = new Ajv2020({ strict: false, allErrors: true });
    addFormats.default(this.#ajv);
    this.#ajv.addSchema(document.root, 'openapi');
  }

  /** Checks the response to a request. */
  check(request: FuzzRequest, response: FuzzResponse): ResponseCheck {
    const { status } = response;
    const { method, target } = request;
    const methods = this.#document.route(target.split('?', 1)[0] ?? '');
    const operation = methods.get(method === 'HEAD' ? 'GET' : method);
    const faults: string[] = [];
    const expected = expectation(request, methods, operation, this.#verdict(operation, request));
    const { statuses, reason } = expected;
    if (!statuses.has(status) && !this.#isUndocumentedRule(response)) faults.push(`status ${status}: ${reason}`);
    if (status === 405) faults.push(...allowFaults(response, methods));
    const documented = operation?.responses.get(status) ?? this.#document.general(status);
    const isBodiless = status === 204 || method === 'HEAD' || (documented && documented.contentType === undefined);
    if (isBodiless && response.text !== '') faults.push('the response has a body');
    if (status === 204) return { operation, faults, json: undefined };
    if (expected.undocumented) return { operation, faults, json: undefined };
    if (!documented) faults.push(`status ${status} is not in the document`);
    else faults.push(...missingHeaders(response, documented));
    const { json, faults: bodyFaults } = isBodiless
      ? { json: undefined, faults: [] }
      : this.parse(response, documented);
    return { operation, faults: [...faults, ...bodyFaults], json };
  }

  /** Parses the JSON of a response; returns it with its faults. */
  parse(
    response: FuzzResponse,
    documented: DocumentedResponse | undefined,
  ): { json: unknown; faults: readonly string[] } {
    const type = response.headers['content-type'];
    const faults = documented && type !== documented.contentType ? [`content type is ${type}`] : [];
    if (documented?.contentType === EVENT_STREAM) {
      return { json: undefined, faults: [...faults, ...eventStreamFaults(response.text)] };
    }
    if (documented && !documented.contentType?.startsWith('application/json')) return { json: undefined, faults };
    try {
      const json: unknown = JSON.parse(response.text);
      const validate = documented && this.#validator(documented.schema);
      if (!validate || validate(json)) return { json, faults };
      const errors = this.#ajv.errorsText(validate.errors, { dataVar: 'response' });
      return { json, faults: [...faults, `the response does not match its schema: ${errors}`] };
    } catch {
      return { json: undefined, faults: [...faults, 'the response is not JSON'] };
    }
  }

  #isUndocumentedRule({ status, text }: FuzzResponse): boolean {
    return status === 400 && this.#undocumentedRules.some((message) => message.test(text));
  }

  #verdict(operation: Operation | undefined, { body, ambiguous }: FuzzRequest): BodyVerdict {
    // Operations without a body do not read one.
    const readsBody = operation === undefined || operation.responses.has(413);
    if (body === undefined || !readsBody) return { kind: 'none', reason: '' };
    if (body.length > bodyLimit(operation?.id)) return { kind: 'too-large', reason: '' };
    if (!operation?.body) return { kind: 'none', reason: '' };
    if (body.length === 0 && !operation.body.required) return { kind: 'none', reason: '' };
    return classifyBody(body, ambiguous, this.#validator(operation.body.pointer));
  }

  #validator(pointer: string): ValidateFunction {
    const known = this.#compiled.get(pointer);
    if (known) return known;
    const compiled = this.#ajv.compile({ $ref: `openapi${encodeURI(pointer)}` });
    this.#compiled.set(pointer, compiled);
    return compiled;
  }
}

/** Checks that `Allow` of a 405 has exactly the documented methods of the path, HEAD with GET, and OPTIONS. */
function allowFaults({ headers }: FuzzResponse, methods: ReadonlyMap<string, Operation>): string[] {
  const expected = new Set([...methods.keys(), ...(methods.has('GET') ? ['HEAD'] : []), 'OPTIONS']);
  const allowed = new Set(String(headers.allow ?? '').split(/\s*,\s*/));
  return expected.symmetricDifference(allowed).size === 0 ? [] : [`Allow is ${headers.allow}`];
}

function missingHeaders({ headers }: FuzzResponse, documented: DocumentedResponse): string[] {
  return documented.headers.flatMap((name) =>
    headers[name.toLowerCase()] === undefined ? [`header ${name} is missing`] : [],
  );
}

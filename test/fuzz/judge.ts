import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { BODY_LIMIT } from './bodies.ts';
import { type BodyVerdict, verdictOnBody } from './body-verdict.ts';
import type { ApiDocument, DocumentedAnswer, Operation } from './document.ts';
import { EVENT_STREAM, wrongInEvents } from './event-stream.ts';
import { expectation } from './expectation.ts';
import type { FuzzRequest } from './request.ts';

/** An answer as it came. */
export interface FuzzAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
}

/** What an answer is measured by, and what it breaks. */
export interface Judgement {
  /** The operation that the request reached; undefined where the document has none for it. */
  readonly operation: Operation | undefined;
  /** A line for each rule that is broken. */
  readonly broken: readonly string[];
  /** The answer's JSON; undefined where it has none. */
  readonly json: unknown;
}

/** Says of answers whether they are what the document promises. */
export class Judge {
  readonly #document: ApiDocument;
  readonly #unsaid: readonly RegExp[];
  readonly #ajv: Ajv2020;
  readonly #compiled = new Map<string, ValidateFunction>();

  /** `unsaid` are messages of refusals for what no schema can say. */
  constructor(document: ApiDocument, unsaid: readonly RegExp[]) {
    this.#document = document;
    this.#unsaid = unsaid;
    this.#ajv = new Ajv2020({ strict: false, allErrors: true });
    addFormats.default(this.#ajv);
    this.#ajv.addSchema(document.root, 'openapi');
  }

  /** Judges the answer to a request. */
  judge(request: FuzzRequest, answer: FuzzAnswer): Judgement {
    const { status } = answer;
    const { method, target } = request;
    const methods = this.#document.route(target.split('?', 1)[0] ?? '');
    const operation = methods.get(method === 'HEAD' ? 'GET' : method);
    const broken: string[] = [];
    const expected = expectation(request, methods, operation, this.#verdict(operation, request));
    const { statuses, because } = expected;
    if (!statuses.has(status) && !this.#isUnsaid(answer)) broken.push(`status ${status}: ${because}`);
    if (status === 405) broken.push(...wrongAllow(answer, methods));
    const bare = status === 204 || method === 'HEAD';
    if (bare && answer.text !== '') broken.push('the answer has a body');
    if (status === 204) return { operation, broken, json: undefined };
    const documented = operation?.answers.get(status) ?? this.#document.general(status);
    if (expected.undocumented) return { operation, broken, json: undefined };
    if (!documented) broken.push(`status ${status} is not in the document`);
    else broken.push(...missingHeaders(answer, documented));
    const { json, wrong } = bare ? { json: undefined, wrong: [] } : this.read(answer, documented);
    return { operation, broken: [...broken, ...wrong], json };
  }

  /** The JSON of an answer, and what is wrong with it. */
  read(answer: FuzzAnswer, documented: DocumentedAnswer | undefined): { json: unknown; wrong: readonly string[] } {
    const type = answer.headers['content-type'];
    const wrong = documented && type !== documented.contentType ? [`its content type is ${type}`] : [];
    if (documented?.contentType === EVENT_STREAM) {
      return { json: undefined, wrong: [...wrong, ...wrongInEvents(answer.text)] };
    }
    try {
      const json: unknown = JSON.parse(answer.text);
      const validate = documented && this.#validator(documented.schema);
      if (!validate || validate(json)) return { json, wrong };
      const errors = this.#ajv.errorsText(validate.errors, { dataVar: 'answer' });
      return { json, wrong: [...wrong, `the answer breaks its schema: ${errors}`] };
    } catch {
      return { json: undefined, wrong: [...wrong, 'the answer is no JSON'] };
    }
  }

  #isUnsaid({ status, text }: FuzzAnswer): boolean {
    return status === 400 && this.#unsaid.some((message) => message.test(text));
  }

  #verdict(operation: Operation | undefined, { body, ambiguous }: FuzzRequest): BodyVerdict {
    // What has no body does not read one.
    const read = operation === undefined || operation.answers.has(413);
    if (body === undefined || !read) return { kind: 'none', because: '' };
    if (body.length > BODY_LIMIT) return { kind: 'large', because: '' };
    if (!operation?.body) return { kind: 'none', because: '' };
    if (body.length === 0 && !operation.body.required) return { kind: 'none', because: '' };
    return verdictOnBody(body, ambiguous, this.#validator(operation.body.pointer));
  }

  #validator(pointer: string): ValidateFunction {
    const known = this.#compiled.get(pointer);
    if (known) return known;
    const compiled = this.#ajv.compile({ $ref: `openapi${encodeURI(pointer)}` });
    this.#compiled.set(pointer, compiled);
    return compiled;
  }
}

/** A 405 names exactly what the document has for the path, HEAD where GET is, and OPTIONS. */
function wrongAllow({ headers }: FuzzAnswer, methods: ReadonlyMap<string, Operation>): string[] {
  const wanted = new Set([...methods.keys(), ...(methods.has('GET') ? ['HEAD'] : []), 'OPTIONS']);
  const named = new Set(String(headers.allow ?? '').split(/\s*,\s*/));
  return wanted.symmetricDifference(named).size === 0 ? [] : [`Allow is ${headers.allow}`];
}

function missingHeaders({ headers }: FuzzAnswer, documented: DocumentedAnswer): string[] {
  return documented.headers.flatMap((name) => (headers[name.toLowerCase()] === undefined ? [`no header ${name}`] : []));
}

import { asCurl } from './curl.ts';
import type { FuzzRequest } from './request.ts';
import type { FuzzResponse } from './response-checker.ts';

/** A deviation from the document. */
interface Finding {
  /** The operation and the violated rule. */
  readonly rule: string;
  /** Shell line of the shortest request that caused it. */
  readonly request: string;
  readonly length: number;
  readonly response: FuzzResponse | undefined;
  readonly count: number;
}

/** Deduplicated findings: those of one operation that differ only in values are the same. */
export class Findings {
  readonly #origin: string;
  readonly #found = new Map<string, Finding>();

  constructor(origin: string) {
    this.#origin = origin;
  }

  /** Adds a finding of a request to an operation. */
  add(operation: string, rule: string, request: FuzzRequest, response: FuzzResponse | undefined): void {
    const length = request.target.length + (request.body?.length ?? 0);
    this.#add(`${operation}: ${rule}`, length, response, () => asCurl(this.#origin, request));
  }

  /** Adds a finding of raw bytes that are not a client's request. */
  addHead(head: string, rule: string, response: FuzzResponse | undefined): void {
    this.#add(`${JSON.stringify(head.slice(0, 200))}: ${rule}`, head.length, response, () => 'on a socket');
  }

  /** A paragraph for each finding: rule, request and response. */
  get lines(): string[] {
    return [...this.#found.values()].map(({ rule, count, request, response }) => {
      const result = response ? `${response.status} ${response.text.slice(0, 400)}` : 'no response';
      return `${rule} (${count} times)\n  ${request}\n  ${result}`;
    });
  }

  #add(rule: string, length: number, response: FuzzResponse | undefined, line: () => string): void {
    const key = `${rule.replaceAll(/\d+|"[^"]*"/g, '#')} ${reasonOf(response)}`;
    const known = this.#found.get(key);
    const count = (known?.count ?? 0) + 1;
    const isShorter = !known || length < known.length;
    this.#found.set(key, isShorter ? { rule, request: line(), length, response, count } : { ...known, count });
  }
}

/** Members with errors in a response, which distinguish findings of one operation. */
function reasonOf(response: FuzzResponse | undefined): string {
  const paths = response?.text.matchAll(/"path":"([^"]*)","message":"([^"]*)"/g) ?? [];
  return [...paths].map(([, path, message]) => `${path?.replaceAll(/\d+/g, '#')} ${message}`).join();
}

import { asCurl } from './curl.ts';
import type { FuzzAnswer } from './judge.ts';
import type { FuzzRequest } from './request.ts';

/** Something that is not as the document says. */
interface Finding {
  /** The operation, and the rule that is broken. */
  readonly what: string;
  /** The shortest of the requests that met it: a line to repeat it with. */
  readonly request: string;
  readonly length: number;
  readonly answer: FuzzAnswer | undefined;
  readonly times: number;
}

/** Findings, each once: alike are those at one operation that differ in nothing but values. */
export class Findings {
  readonly #origin: string;
  readonly #found = new Map<string, Finding>();

  constructor(origin: string) {
    this.#origin = origin;
  }

  /** Adds what a request to an operation met. */
  add(operation: string, rule: string, request: FuzzRequest, answer: FuzzAnswer | undefined): void {
    const length = request.target.length + (request.body?.length ?? 0);
    this.#keep(`${operation}: ${rule}`, length, answer, () => asCurl(this.#origin, request));
  }

  /** Adds what bytes met that are no request of a client. */
  addHead(head: string, rule: string, answer: FuzzAnswer | undefined): void {
    this.#keep(`${JSON.stringify(head.slice(0, 200))}: ${rule}`, head.length, answer, () => 'on a socket');
  }

  /** A paragraph for each: what it is, the request to repeat it with, and what was answered. */
  get lines(): string[] {
    return [...this.#found.values()].map(({ what, times, request, answer }) => {
      const got = answer ? `${answer.status} ${answer.text.slice(0, 400)}` : 'no answer';
      return `${what} (${times} times)\n  ${request}\n  ${got}`;
    });
  }

  #keep(what: string, length: number, answer: FuzzAnswer | undefined, line: () => string): void {
    const key = `${what.replaceAll(/\d+|"[^"]*"/g, '#')} ${reasonOf(answer)}`;
    const known = this.#found.get(key);
    const times = (known?.times ?? 0) + 1;
    const shorter = !known || length < known.length;
    this.#found.set(key, shorter ? { what, request: line(), length, answer, times } : { ...known, times });
  }
}

/** The members that an answer complains of, which tell findings of one operation apart. */
function reasonOf(answer: FuzzAnswer | undefined): string {
  const paths = answer?.text.matchAll(/"path":"([^"]*)","message":"([^"]*)"/g) ?? [];
  return [...paths].map(([, path, message]) => `${path?.replaceAll(/\d+/g, '#')} ${message}`).join();
}

import type { IncomingHttpHeaders } from 'node:http';
import { members } from '@sluice/json/scan';
import { sameNumber } from './decimal.ts';
import type { RequestMessage } from './message.ts';
import { decodeHeaderValue, encodeHeaderValue, type ParamHeader } from './param-headers.ts';

/** Declared headers in the shape of the arguments that they mirror. */
interface Branch {
  header: string | undefined;
  readonly children: Map<string, Branch>;
}

/**
 * The headers that a tool declares (2026-07-28, Streamable HTTP, "Custom Headers from Tool Parameters"), ready to be
 * made of a call's arguments and compared with them. Values are read from the text of the message, so that a number
 * which no double can carry is told as it was spelled.
 */
export class MirroredParams {
  /** Full names as declared, by lower-case name. */
  readonly #names = new Map<string, string>();
  readonly #root: Branch = { header: undefined, children: new Map() };

  constructor(declared: readonly ParamHeader[]) {
    for (const { header, path } of declared) {
      this.#names.set(header.toLowerCase(), header);
      let branch = this.#root;
      for (const key of path) {
        const child = branch.children.get(key) ?? { header: undefined, children: new Map() };
        branch.children.set(key, child);
        branch = child;
      }
      branch.header = header;
    }
  }

  /** True for a header (lower case) that the tool declares. */
  has(header: string): boolean {
    return this.#names.has(header);
  }

  /** Names and values, alternating, of the headers that a call has to carry. */
  headersFor(message: RequestMessage): string[] {
    const headers: string[] = [];
    for (const [header, json] of this.#valuesIn(message)) {
      const value = headerValue(json);
      if (value !== undefined) headers.push(header, value);
    }
    return headers;
  }

  /**
   * What is wrong with a client's headers: one is missing, is too much, holds what no header may, or differs from the
   * body. Undefined when they agree. Several lines of one header count as one that joins them, as HTTP has it.
   */
  problem(message: RequestMessage, headers: IncomingHttpHeaders): string | undefined {
    const values = this.#valuesIn(message);
    for (const [lower, header] of this.#names) {
      const value = headers[lower];
      const json = values.get(header);
      if (value === undefined) {
        if (json !== undefined && headerValue(json) !== undefined) return `header ${header} is missing`;
        continue;
      }
      if (json === undefined) return `header ${header} mirrors an argument that the body does not have`;
      const text = typeof value === 'string' ? decodeHeaderValue(value) : undefined;
      if (text === undefined) return `header ${header} is not valid`;
      if (!mirrors(text, json)) return `header ${header} differs from the body`;
    }
    return undefined;
  }

  /** JSON text of the values that are there and not null, by full name of their header. */
  #valuesIn({ text, paramsRange }: RequestMessage): ReadonlyMap<string, string> {
    const values = new Map<string, string>();
    if (!paramsRange) return values;
    for (const { key, start } of members(text, paramsRange.start)) {
      if (key === 'arguments') collect(this.#root, text, start, values);
    }
    return values;
  }
}

function collect(branch: Branch, text: string, at: number, values: Map<string, string>): void {
  // Of members of one name the last counts, as for JSON.parse.
  const found = new Map<Branch, { readonly start: number; readonly end: number }>();
  for (const { key, start, end } of members(text, at)) {
    const child = branch.children.get(key);
    if (child) found.set(child, { start, end });
  }
  for (const [child, { start, end }] of found) {
    if (child.header !== undefined && !text.startsWith('null', start)) values.set(child.header, text.slice(start, end));
    if (child.children.size > 0) collect(child, text, start, values);
  }
}

/** The header value of a JSON value; undefined for objects and arrays, which no header mirrors. */
function headerValue(json: string): string | undefined {
  switch (json[0]) {
    case '"':
      return encodeHeaderValue(String(JSON.parse(json)));
    case 't':
    case 'f':
      return json;
    case '{':
    case '[':
      return undefined;
    default: {
      const plain = String(Number(json));
      return Number.isSafeInteger(Number(json)) && sameNumber(plain, json) ? plain : json;
    }
  }
}

/** Numbers are compared as numbers, all else as text ("Server Validation"). */
function mirrors(text: string, json: string): boolean {
  switch (json[0]) {
    case '"':
      return JSON.parse(json) === text;
    case 't':
    case 'f':
      return json === text;
    case '{':
    case '[':
      return false;
    default:
      return sameNumber(text, json);
  }
}

/**
 * `x-mcp-header`: parameters of a tool that are mirrored into `Mcp-Param-*` headers on the modern era's HTTP leg
 * (2026-07-28, Streamable HTTP, "Custom Headers from Tool Parameters"; mcp 4), and the header value encoding that they
 * share with `Mcp-Name`.
 */

import type { IncomingHttpHeaders } from 'node:http';
import { isJsonObject } from '@sluice/protocol/json/parse';
import { members } from '@sluice/protocol/json/scan';
import type { RequestMessage } from './message.ts';

/** One declared header: its full name as declared, and the property path of its value in the call's arguments. */
export interface ParamHeader {
  /** `Mcp-Param-{name}`. */
  readonly header: string;
  readonly path: readonly string[];
}

/** What a tool's input schema declares; `valid: false` says why the tool must be left out. */
export type ParamHeaders =
  | { readonly valid: true; readonly headers: readonly ParamHeader[] }
  | { readonly valid: false; readonly reason: string };

const ANNOTATION = 'x-mcp-header';
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const TYPES: ReadonlySet<unknown> = new Set(['string', 'integer', 'boolean']);
const NONE: ParamHeaders = { valid: true, headers: [] };

/** Keywords other than `properties` whose value is a schema or an array of schemas. */
const SUBSCHEMAS = [
  'items',
  'prefixItems',
  'additionalItems',
  'contains',
  'additionalProperties',
  'unevaluatedProperties',
  'unevaluatedItems',
  'propertyNames',
  'contentSchema',
  'oneOf',
  'anyOf',
  'allOf',
  'not',
  'if',
  'then',
  'else',
];

/** Keywords whose value maps names to schemas. */
const SCHEMA_MAPS = ['patternProperties', 'dependentSchemas', 'dependencies', '$defs', 'definitions'];

interface Visit {
  readonly schema: Readonly<Record<string, unknown>>;
  /** Where it stands in the chain of `properties` keys; undefined once off that chain. */
  readonly place: Place | undefined;
}

/** A link of the chain, so that deep schemas cost no path of their own for every level. */
interface Place {
  readonly depth: number;
  readonly key: string;
  readonly parent: Place | undefined;
}

/** An annotation deeper than this is refused: its path would cost more than any real tool's arguments are worth. */
const MAX_PATH = 64;
const ROOT: Place = { depth: 0, key: '', parent: undefined };

/**
 * Reads the declarations of a parsed input schema. Any breach of the protocol's constraints makes the whole tool
 * invalid: a value that is no header token, two names that differ by case only, a type other than string, integer or
 * boolean, a place that is not reached by `properties` alone.
 */
export function readParamHeaders(inputSchema: unknown): ParamHeaders {
  if (!isJsonObject(inputSchema)) return NONE;
  const headers: ParamHeader[] = [];
  const names = new Set<string>();
  // A stack of our own: schemas come from outside and may be nested deeper than calls can be.
  const open: Visit[] = [{ schema: inputSchema, place: ROOT }];
  for (let visit = open.pop(); visit !== undefined; visit = open.pop()) {
    const { schema, place } = visit;
    if (Object.hasOwn(schema, ANNOTATION)) {
      const name = schema[ANNOTATION];
      if (place === undefined || place.depth === 0 || place.depth > MAX_PATH)
        return invalid('is not on a property reached by properties alone');
      if (typeof name !== 'string' || !TOKEN.test(name)) return invalid('is not a header name');
      if (!TYPES.has(schema.type)) return invalid('is on a property that is no string, integer or boolean');
      if (names.has(name.toLowerCase())) return invalid('names the same header twice');
      names.add(name.toLowerCase());
      headers.push({ header: `Mcp-Param-${name}`, path: pathTo(place) });
    }
    const { properties } = schema;
    if (isJsonObject(properties)) {
      for (const [key, child] of Object.entries(properties)) {
        if (!isJsonObject(child)) continue;
        open.push({ schema: child, place: place && { depth: place.depth + 1, key, parent: place } });
      }
    }
    for (const keyword of SUBSCHEMAS) {
      const child = schema[keyword];
      if (isJsonObject(child)) open.push({ schema: child, place: undefined });
      else if (Array.isArray(child)) pushAll(open, child);
    }
    for (const keyword of SCHEMA_MAPS) {
      const children = schema[keyword];
      if (isJsonObject(children)) pushAll(open, Object.values(children));
    }
  }
  return headers.length === 0 ? NONE : { valid: true, headers };
}

const PREFIX = '=?base64?';
const SUFFIX = '?=';
/** What may stand in a header as it is: visible ASCII with spaces and tabs inside, not at the ends. */
const PLAIN = /^[!-~](?:[\t -~]*[!-~])?$/;
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** `text` as a header value: itself when it is plain ASCII, else in the Base64 sentinel form. */
export function encodeHeaderValue(text: string): string {
  if (PLAIN.test(text) && !(text.startsWith(PREFIX) && text.endsWith(SUFFIX))) return text;
  return PREFIX + Buffer.from(text, 'utf8').toString('base64') + SUFFIX;
}

/** The text that a header value stands for; undefined when it holds invalid characters, Base64 or UTF-8. */
export function decodeHeaderValue(value: string): string | undefined {
  if (!value.startsWith(PREFIX) || !value.endsWith(SUFFIX) || value.length < PREFIX.length + SUFFIX.length) {
    return value === '' || PLAIN.test(value) ? value : undefined;
  }
  const encoded = value.slice(PREFIX.length, -SUFFIX.length);
  if (!BASE64.test(encoded)) return undefined;
  const bytes = Buffer.from(encoded, 'base64');
  const text = bytes.toString('utf8');
  return Buffer.from(text, 'utf8').equals(bytes) ? text : undefined;
}

function pushAll(open: Visit[], schemas: readonly unknown[]): void {
  for (const schema of schemas) if (isJsonObject(schema)) open.push({ schema, place: undefined });
}

function pathTo(place: Place): string[] {
  const path = new Array<string>(place.depth);
  for (let link: Place | undefined = place; link !== undefined && link.depth > 0; link = link.parent) {
    path[link.depth - 1] = link.key;
  }
  return path;
}

function invalid(what: string): ParamHeaders {
  return { valid: false, reason: `${ANNOTATION} ${what}` };
}

const NUMBER = /^(-?)(0|[1-9]\d*)(?:\.(\d+))?(?:[eE]([+-]?\d{1,12}))?$/;
const ZERO = 0x30;

/**
 * True when two texts spell the same number in JSON's grammar, however large or exact: `42.0` and `42`, but not
 * 9223372036854775807 and 9223372036854775808, which are one double. Exponents of more than 12 digits are not read.
 */
export function sameNumber(a: string, b: string): boolean {
  if (a === b) return NUMBER.test(a);
  const one = canonical(a);
  return one !== undefined && one === canonical(b);
}

/** Sign, digits without zeros at either end, and exponent. Linear in the length: numbers come from outside. */
function canonical(text: string): string | undefined {
  const parts = NUMBER.exec(text);
  if (!parts) return undefined;
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = parts;
  const digits = whole + fraction;
  let start = 0;
  while (digits.charCodeAt(start) === ZERO) start++;
  if (start === digits.length) return '0';
  let end = digits.length;
  while (digits.charCodeAt(end - 1) === ZERO) end--;
  return `${sign}${digits.slice(start, end)}e${Number(exponent) - fraction.length + digits.length - end}`;
}

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

/**
 * `x-mcp-header`: tool parameters that modern requests mirror in `Mcp-Param-*` headers (2026-07-28, Streamable HTTP, "Custom
 * Headers from Tool Parameters"), and the encoding of header values, which `Mcp-Name` uses too.
 */

import type { IncomingHttpHeaders } from 'node:http';
import { isJsonObject } from '../json/parse.ts';
import { type Member, members } from '../json/text.ts';
import { membersOf, type RequestMessage } from './message.ts';

/** A declared header: its name, and the path of its value in the arguments. */
export interface ParamHeader {
  /** `Mcp-Param-{name}`. */
  readonly header: string;
  readonly path: readonly string[];
}

/** The declarations of a tool's input schema; a tool with invalid ones must be omitted. */
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
  /** Path of `properties` keys; undefined below other keywords. */
  readonly location: ParameterLocation | undefined;
}

/** One key of a path, linked to its parent, so that deep schemas need no array per level. */
interface ParameterLocation {
  readonly depth: number;
  readonly key: string;
  readonly parent: ParameterLocation | undefined;
}

/** Maximum depth of a declaration. */
const MAX_PATH = 64;
const ROOT: ParameterLocation = { depth: 0, key: '', parent: undefined };

/**
 * Reads the declarations of an input schema. A violation of the protocol's constraints makes the tool invalid: a name
 * that is not a header token, two names that differ only in case, a type other than string, integer or boolean, or a
 * position below a keyword other than `properties`.
 */
export function readParamHeaders(inputSchema: unknown): ParamHeaders {
  if (!isJsonObject(inputSchema)) return NONE;
  const headers: ParamHeader[] = [];
  const names = new Set<string>();
  // An explicit stack: schemas may be nested deeper than the call stack allows.
  const open: Visit[] = [{ schema: inputSchema, location: ROOT }];
  for (let visit = open.pop(); visit !== undefined; visit = open.pop()) {
    const { schema, location } = visit;
    if (Object.hasOwn(schema, ANNOTATION)) {
      const name = schema[ANNOTATION];
      if (location === undefined || location.depth === 0 || location.depth > MAX_PATH)
        return invalid('must be on a property reached through "properties" only');
      if (typeof name !== 'string' || !TOKEN.test(name)) return invalid('must be a valid header name');
      if (!TYPES.has(schema.type)) return invalid('must be on a property of type string, integer or boolean');
      if (names.has(name.toLowerCase())) return invalid('is used twice for the same header');
      names.add(name.toLowerCase());
      headers.push({ header: `Mcp-Param-${name}`, path: pathTo(location) });
    }
    const { properties } = schema;
    if (isJsonObject(properties)) {
      for (const [key, child] of Object.entries(properties)) {
        if (!isJsonObject(child)) continue;
        open.push({ schema: child, location: location && { depth: location.depth + 1, key, parent: location } });
      }
    }
    for (const keyword of SUBSCHEMAS) {
      const child = schema[keyword];
      if (isJsonObject(child)) open.push({ schema: child, location: undefined });
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
/** Values that need no encoding: visible ASCII, with spaces and tabs except at the ends. */
const UNENCODED_VALUE = /^[!-~](?:[\t -~]*[!-~])?$/;
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** Encodes a header value: plain ASCII unchanged, other text in the Base64 sentinel form. */
export function encodeHeaderValue(text: string): string {
  if (UNENCODED_VALUE.test(text) && !(text.startsWith(PREFIX) && text.endsWith(SUFFIX))) return text;
  return PREFIX + Buffer.from(text, 'utf8').toString('base64') + SUFFIX;
}

/** Decodes a header value; undefined for invalid characters, Base64 or UTF-8. */
export function decodeHeaderValue(value: string): string | undefined {
  if (!value.startsWith(PREFIX) || !value.endsWith(SUFFIX) || value.length < PREFIX.length + SUFFIX.length) {
    return value === '' || UNENCODED_VALUE.test(value) ? value : undefined;
  }
  const encoded = value.slice(PREFIX.length, -SUFFIX.length);
  if (!BASE64.test(encoded)) return undefined;
  const bytes = Buffer.from(encoded, 'base64');
  const text = bytes.toString('utf8');
  return Buffer.from(text, 'utf8').equals(bytes) ? text : undefined;
}

function pushAll(open: Visit[], schemas: readonly unknown[]): void {
  for (const schema of schemas) if (isJsonObject(schema)) open.push({ schema, location: undefined });
}

function pathTo(location: ParameterLocation): string[] {
  const path = new Array<string>(location.depth);
  for (let link: ParameterLocation | undefined = location; link !== undefined && link.depth > 0; link = link.parent) {
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
 * True when two JSON texts are the same number, of any size and precision: `42.0` and `42`, but not 9223372036854775807
 * and 9223372036854775808, which are the same double. Exponents of more than 12 digits are not supported.
 */
export function sameNumber(a: string, b: string): boolean {
  if (a === b) return NUMBER.test(a);
  const one = canonical(a);
  return one !== undefined && one === canonical(b);
}

/** Sign, digits without leading and trailing zeros, and exponent. Takes linear time. */
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

/** Tree of declared headers, in the structure of the arguments. */
interface HeaderNode {
  header: string | undefined;
  readonly children: Map<string, HeaderNode>;
}

/**
 * The declared headers of a tool (2026-07-28, Streamable HTTP, "Custom Headers from Tool Parameters"). Creates them
 * from the arguments of a call and compares them. Values are read from the text of the message, so that numbers stay
 * exact.
 */
export class MirroredParams {
  /** Full names as declared, by lower-case name. */
  readonly #names = new Map<string, string>();
  readonly #root: HeaderNode = { header: undefined, children: new Map() };

  constructor(declared: readonly ParamHeader[]) {
    for (const { header, path } of declared) {
      this.#names.set(header.toLowerCase(), header);
      let node = this.#root;
      for (const key of path) {
        const child = node.children.get(key) ?? { header: undefined, children: new Map() };
        node.children.set(key, child);
        node = child;
      }
      node.header = header;
    }
  }

  /** True for a header (lower case) that the tool declares. */
  has(header: string): boolean {
    return this.#names.has(header);
  }

  /** The headers of a call, alternating names and values. */
  headersFor(message: RequestMessage): string[] {
    const headers: string[] = [];
    for (const [header, json] of this.#valuesIn(message)) {
      const value = headerValue(json);
      if (value !== undefined) headers.push(header, value);
    }
    return headers;
  }

  /**
   * Checks a client's headers; returns the problem when one is missing, unexpected, invalid or different from the body.
   * Repeated headers are joined, as in HTTP.
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
      if (!matchesBody(text, json)) return `header ${header} differs from the body`;
    }
    return undefined;
  }

  /** JSON text of the present values other than null, by header name. */
  #valuesIn({ text, paramMembers }: RequestMessage): ReadonlyMap<string, string> {
    const values = new Map<string, string>();
    collect(this.#root, text, membersOf(paramMembers, 'arguments'), values);
    return values;
  }
}

function collect(node: HeaderNode, text: string, object: Iterable<Member>, values: Map<string, string>): void {
  // The last one of duplicate members counts, as for JSON.parse.
  const found = new Map<HeaderNode, { readonly start: number; readonly end: number }>();
  for (const { key, start, end } of object) {
    const child = node.children.get(key);
    if (child) found.set(child, { start, end });
  }
  for (const [child, { start, end }] of found) {
    if (child.header !== undefined && !text.startsWith('null', start)) values.set(child.header, text.slice(start, end));
    if (child.children.size > 0) collect(child, text, members(text, start), values);
  }
}

/** The header value of a JSON value; undefined for objects and arrays. */
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
function matchesBody(text: string, json: string): boolean {
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

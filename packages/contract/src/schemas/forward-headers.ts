import { z } from 'zod';
import { jsonObject } from './json.ts';

/** A secret that a header value refers to. */
export interface SecretReference {
  /** An environment variable of the service, or a file of its folder for secrets. */
  readonly kind: 'env' | 'file';
  /** Name of the variable or file. */
  readonly name: string;
  /** As written: `${env:SERVICE_SECRET_CRM}`. */
  readonly text: string;
}

const REFERENCE = /(\$\{(env|file):([^{}]*)\})/;

/**
 * Splits a value into literal text and references, in order. Undefined if it contains `${` that does not begin a
 * reference.
 */
export function parseReferences(value: string): readonly (string | SecretReference)[] | undefined {
  const parts: (string | SecretReference)[] = [];
  // Of each match, the separator contributes three groups.
  const pieces = value.split(REFERENCE);
  for (let at = 0; at < pieces.length; at += 4) {
    const [literal = '', text, kind, name] = pieces.slice(at, at + 4);
    if (literal.includes('${')) return undefined;
    if (literal !== '') parts.push(literal);
    if (text !== undefined && name !== undefined) parts.push({ kind: kind === 'env' ? 'env' : 'file', name, text });
  }
  return parts;
}

/** Prefix of the environment variables that headers may refer to. */
const ENV_PREFIX = 'SERVICE_SECRET_';
/** A setting, despite its prefix. */
const ENV_SETTINGS: ReadonlySet<string> = new Set(['SERVICE_SECRET_ORIGINS']);

/** Returns whether headers may refer to an environment variable. */
export function isSecretVariable(name: string): boolean {
  return /^SERVICE_SECRET_\w+$/.test(name) && !ENV_SETTINGS.has(name);
}

const EXAMPLE = `\${env:${ENV_PREFIX}NAME} or \${file:name}`;
const MAX_LENGTH = 8_192;
const MAX_HEADERS = 64;

/** Set by the service, for the message or the connection, or with a meaning in MCP. */
const REFUSED: ReadonlySet<string> = new Set([
  'host',
  'connection',
  'keep-alive',
  'te',
  'trailer',
  'upgrade',
  'transfer-encoding',
  'expect',
  'accept',
  'last-event-id',
  'x-service-hops',
]);
const REFUSED_PREFIXES = ['content-', 'mcp-', 'proxy-'];

/** Returns whether a header (lower case) belongs to the message, the connection or MCP, so that no setting may name it. */
export function isProtocolHeader(name: string): boolean {
  return REFUSED.has(name) || REFUSED_PREFIXES.some((prefix) => name.startsWith(prefix));
}

/** Names with values that are no secrets. */
const LITERAL: ReadonlySet<string> = new Set(['accept-language', 'user-agent']);

const NAME = "[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}";
const VALUE = '[!-~](?:[ -~]*[!-~])?';

/** Returns why a name is none of a header, or undefined. */
function nameProblem(name: string): string | undefined {
  return new RegExp(`^${NAME}$`).test(name) ? undefined : 'must be a header name';
}

/** Returns why a header must not be sent to upstreams, or undefined. Never contains the value. */
function headerProblem(name: string, value: string): string | undefined {
  const lower = name.toLowerCase();
  if (isProtocolHeader(lower)) return 'is set by the service itself';
  if (value.length > MAX_LENGTH) return `must have at most ${MAX_LENGTH} characters`;
  if (!new RegExp(`^${VALUE}$`).test(value)) return 'must be printable ASCII without spaces at its ends, and not empty';
  const parts = parseReferences(value);
  if (!parts) return `contains "\${" that is no reference: expected ${EXAMPLE}`;
  const references = parts.filter((part) => typeof part !== 'string');
  if (references.length === 0 && !LITERAL.has(lower)) {
    return `must contain a reference such as ${EXAMPLE}, because values are stored and returned as written; only accept-language and user-agent may be literal`;
  }
  return references.map(referenceProblem).find((problem) => problem !== undefined);
}

function referenceProblem({ kind, name, text }: SecretReference): string | undefined {
  if (kind === 'file') {
    const isName = /^[A-Za-z0-9_.-]{1,255}$/.test(name) && name !== '.' && name !== '..';
    return isName ? undefined : `refers to ${text}: expected the name of a file, without its path`;
  }
  if (isSecretVariable(name)) return undefined;
  return `refers to ${text}: only variables whose names begin with ${ENV_PREFIX} are allowed`;
}

function checkedHeaders<Value extends string | null>(isAllowed: (value: unknown) => value is Value, expected: string) {
  // Not `z.record`, which drops a header named `__proto__`.
  return jsonObject.transform((object, context) => {
    const entries = Object.entries(object);
    if (entries.length > MAX_HEADERS) {
      context.addIssue({ code: 'custom', message: `must have at most ${MAX_HEADERS} headers` });
      return z.NEVER;
    }
    const checked: [string, Value][] = [];
    const seen = new Set<string>();
    for (const [name, value] of entries) {
      const reject = (message: string) => context.addIssue({ code: 'custom', message, path: [name] });
      if (!isAllowed(value)) {
        reject(`must be ${expected}`);
        continue;
      }
      const problem = nameProblem(name) ?? (value === null ? undefined : headerProblem(name, value));
      if (problem !== undefined) reject(problem);
      else if (seen.has(name.toLowerCase())) reject('is a duplicate: names of headers are case-insensitive');
      seen.add(name.toLowerCase());
      checked.push([name, value]);
    }
    return Object.fromEntries(checked);
  });
}

/** Value with a reference; that all of its references are valid is described in text. */
const REFERRING = '^[ -~]*\\$\\{(env:SERVICE_SECRET_[A-Za-z0-9_]+|file:[A-Za-z0-9_.-]+)\\}[ -~]*$';
/** {@link LITERAL} in any case. */
const LITERAL_NAMES =
  '^([Aa][Cc][Cc][Ee][Pp][Tt]-[Ll][Aa][Nn][Gg][Uu][Aa][Gg][Ee]|[Uu][Ss][Ee][Rr]-[Aa][Gg][Ee][Nn][Tt])$';

/** JSON Schema of the map; `type` is that of its values. */
function mapSchema<const Type extends string | readonly string[]>(type: Type) {
  return {
    type: 'object',
    maxProperties: MAX_HEADERS,
    propertyNames: { pattern: `^${NAME}$` },
    patternProperties: { [LITERAL_NAMES]: { type, maxLength: MAX_LENGTH, pattern: `^${VALUE}$` } },
    additionalProperties: { type, maxLength: MAX_LENGTH, pattern: REFERRING },
  };
}

/**
 * Headers of all requests to an upstream, as written: with references in place of secrets. Issues never contain a value.
 */
export const forwardHeaders = checkedHeaders((value) => typeof value === 'string', 'a string').meta(
  mapSchema('string'),
);

/** Changes of headers: null removes one, missing ones stay. */
export const forwardHeadersPatch = checkedHeaders(
  (value) => typeof value === 'string' || value === null,
  'a string or null',
).meta(mapSchema(['string', 'null']));

export type ForwardHeaders = z.infer<typeof forwardHeaders>;
export type ForwardHeadersPatch = z.infer<typeof forwardHeadersPatch>;

/** The headers after a change, undefined for none; null removes all. A name replaces its other spellings. */
export function changedHeaders(
  headers: ForwardHeaders | undefined,
  changes: ForwardHeadersPatch | null | undefined,
): ForwardHeaders | undefined {
  if (changes === null) return undefined;
  const named = new Set(Object.keys(changes ?? {}).map((name) => name.toLowerCase()));
  const kept = Object.entries(headers ?? {}).filter(([name]) => !named.has(name.toLowerCase()));
  const set = Object.entries(changes ?? {}).filter((entry): entry is [string, string] => entry[1] !== null);
  const changed = [...kept, ...set];
  return changed.length > 0 ? Object.fromEntries(changed) : undefined;
}

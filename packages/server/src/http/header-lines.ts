import { detach } from '@sluice/protocol/text';

/** A field name: a token (RFC 9110 5.6.2). */
export const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
/** Names of hop-by-hop headers, in addition to `Proxy-*` (RFC 9110 7.6.1). */
export const HOP_BY_HOP: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/**
 * Returns a name in the form in which headers are recognized that must not get through in another notation: in lower case, and
 * with `-` for `_`, which is the same to servers that pass headers on as environment variables.
 */
export function comparableName(name: string): string {
  const lower = name.toLowerCase();
  return lower.includes('_') ? lower.replaceAll('_', '-') : lower;
}

/** Returns the headers whose lower-case names are kept; both are names and values, alternating. */
export function filterHeaders(headers: readonly string[], isKept: (name: string, value: string) => boolean): string[] {
  const kept: string[] = [];
  for (let at = 0; at + 1 < headers.length; at += 2) {
    const [name = '', value = ''] = [headers[at], headers[at + 1]];
    if (isKept(name.toLowerCase(), value)) kept.push(name, value);
  }
  return kept;
}

/** Characters that are neither in values nor in reason phrases. */
export const INVALID_VALUE = /[^\t\x20-\x7e\x80-\xff]/;
/** Limits of the cache: peers choose names and values. */
const MAX_LINES = 256;
const MAX_VALUE_LENGTH = 256;
/** V8 copies shorter slices of a text. */
const MIN_SLICE_LENGTH = 13;

/** A header line of a message that is sent. */
export interface HeaderLine<Meaning> {
  readonly name: string;
  readonly value: string;
  /** Characters of latin1. */
  readonly text: string;
  readonly meaning: Meaning;
}

/**
 * Creates header lines, and caches the last one of each name: most messages have the same lines except for a few values, so that
 * the others are validated only once.
 */
export class HeaderLines<Meaning> {
  readonly #meaningOf: (name: string, value: string) => Meaning;
  readonly #cached = new Map<string, HeaderLine<Meaning>>();
  /** Number of lines that were not in the cache. */
  misses = 0;

  /** `meaningOf` gets lower-case names, and throws TypeError for lines that are not allowed. */
  constructor(meaningOf: (name: string, value: string) => Meaning) {
    this.#meaningOf = meaningOf;
  }

  /** Throws TypeError, without the value, for an invalid name or value. */
  line(name: string, value: string | undefined): HeaderLine<Meaning> {
    const cached = this.#cached.get(name);
    if (cached !== undefined && cached.value === value) return cached;
    this.misses++;
    if (cached === undefined && !TOKEN.test(name)) throw new TypeError('invalid header name');
    if (value === undefined || INVALID_VALUE.test(value)) throw new TypeError(`invalid value of header ${name}`);
    const meaning = this.#meaningOf(name.toLowerCase(), value);
    const isCacheable = value.length <= MAX_VALUE_LENGTH && (cached !== undefined || this.#cached.size < MAX_LINES);
    if (!isCacheable) return newLine(name, value, meaning);
    const line = newLine(cached?.name ?? unsliced(name), unsliced(value), meaning);
    this.#cached.set(line.name, line);
    return line;
  }
}

function newLine<Meaning>(name: string, value: string, meaning: Meaning): HeaderLine<Meaning> {
  return { name, value, text: `${name}: ${value}\r\n`, meaning };
}

/** Names and values are slices of a whole head, which the cache must not retain. */
function unsliced(text: string): string {
  return text.length < MIN_SLICE_LENGTH ? text : detach(text);
}

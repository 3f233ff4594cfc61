/** A field name: a token (RFC 9110 5.6.2). */
export const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
/** Characters that are neither in values nor in reason phrases. */
export const INVALID_VALUE = /[^\t\x20-\x7e\x80-\xff]/;
/** Limits of what is kept: peers choose names and values. */
const MAX_LINES = 256;
const MAX_VALUE_LENGTH = 256;

/** A header line of a message that is sent. */
export interface HeaderLine<Meaning> {
  readonly value: string;
  /** Characters of latin1. */
  readonly text: string;
  readonly meaning: Meaning;
}

/**
 * Creates header lines. Most messages of a server, or to an upstream, have the same lines except for a few values: the last line of
 * each name is kept, so that it is checked and put together once.
 */
export class HeaderLines<Meaning> {
  readonly #meaningOf: (name: string, value: string) => Meaning;
  readonly #kept = new Map<string, HeaderLine<Meaning>>();

  /** `meaningOf` gets lower-case names, and throws TypeError for lines that are not allowed. */
  constructor(meaningOf: (name: string, value: string) => Meaning) {
    this.#meaningOf = meaningOf;
  }

  /** Throws TypeError, without the value, for an invalid name or value. */
  line(name: string, value: string | undefined): HeaderLine<Meaning> {
    const kept = this.#kept.get(name);
    if (kept !== undefined && kept.value === value) return kept;
    if (kept === undefined && !TOKEN.test(name)) throw new TypeError('invalid header name');
    if (value === undefined || INVALID_VALUE.test(value)) throw new TypeError(`invalid value of header ${name}`);
    const line = { value, text: `${name}: ${value}\r\n`, meaning: this.#meaningOf(name.toLowerCase(), value) };
    const isKept = value.length <= MAX_VALUE_LENGTH && (kept !== undefined || this.#kept.size < MAX_LINES);
    if (isKept) this.#kept.set(name, line);
    return line;
  }
}

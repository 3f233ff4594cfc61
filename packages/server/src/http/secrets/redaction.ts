/** Replaces a secret in redacted text. */
const REDACTED = '[REDACTED]';

/** Shorter values occur in unrelated text, such as numbers, and are not redacted. */
export const MIN_REDACTED_LENGTH = 6;

/** Characters of a secret that the search looks for at once; its other characters are compared one by one. */
const PREFIX_LENGTH = 8;

/** Longest sequence of backslashes that escapes a character: JSON that is nested four times in strings has 15. */
const MAX_BACKSLASHES = 16;
/** Longest form of one character: backslashes and `u0041`. */
const MAX_FORM_LENGTH = MAX_BACKSLASHES + 5;

const BACKSLASH = 0x5c;
const LOWER_U = 0x75;

/** Results of a comparison besides the end of an occurrence. */
const ABSENT = -1;
const INCOMPLETE = -2;

/**
 * Finds secrets in text, also with characters escaped as in JSON strings (`\u002b`, `\/`), in which encoders differ. Other
 * encodings, such as base64, percent encoding and character references, are not found.
 */
export class SecretMatcher {
  readonly #secrets: readonly string[];
  readonly #prefixes: RegExp;
  /** Codes of the characters that an occurrence may begin with: 1 at their index. */
  readonly #first = new Uint8Array(256);
  readonly #maxLength: number;

  /** At least one secret of at least {@link MIN_REDACTED_LENGTH} characters of ASCII. */
  constructor(secrets: readonly string[]) {
    // Of secrets that begin alike, the longest is found.
    this.#secrets = [...secrets].sort((a, b) => b.length - a.length);
    this.#prefixes = new RegExp(this.#secrets.map(prefixPattern).join('|'), 'g');
    for (const secret of ['\\', ...this.#secrets]) this.#first[secret.charCodeAt(0)] = 1;
    this.#maxLength = (this.#secrets[0]?.length ?? 0) * MAX_FORM_LENGTH;
  }

  /**
   * Returns the next occurrence from `from` on. `end` is undefined if the text ends within what may be one, unless the text
   * is complete.
   */
  next(
    text: string,
    from: number,
    isComplete: boolean,
  ): { readonly start: number; readonly end: number | undefined } | undefined {
    this.#prefixes.lastIndex = from;
    for (let found = this.#prefixes.exec(text); found; found = this.#prefixes.exec(text)) {
      const start = escapeStart(text, found.index, from);
      const end = this.#endAt(text, start, isComplete);
      if (end >= 0) return { start, end };
      if (end === INCOMPLETE) return { start, end: undefined };
      this.#prefixes.lastIndex = found.index + 1;
    }
    if (isComplete) return undefined;
    // An occurrence that begins at the end of the text may not have its whole prefix there.
    const first = this.#first;
    const { length } = text;
    for (let at = Math.max(from, length - this.#maxLength); at < length; at++) {
      if (first[text.charCodeAt(at)] !== 1) continue;
      const min = at;
      while (at < length - 1 && text.charCodeAt(at) === BACKSLASH) at++;
      const start = escapeStart(text, at, min);
      if (this.#endAt(text, start, false) === INCOMPLETE) return { start, end: undefined };
    }
    return undefined;
  }

  /** Replaces all occurrences in a text. */
  redact(text: string): string {
    let redacted = '';
    let from = 0;
    for (let found = this.next(text, 0, true); found?.end !== undefined; found = this.next(text, from, true)) {
      redacted += text.slice(from, found.start) + REDACTED;
      from = found.end;
    }
    return from === 0 ? text : redacted + text.slice(from);
  }

  #endAt(text: string, start: number, isComplete: boolean): number {
    for (const secret of this.#secrets) {
      const end = occurrenceEnd(text, start, secret);
      if (end >= 0 || (end === INCOMPLETE && !isComplete)) return end;
    }
    return ABSENT;
  }
}

/** Pattern of the beginning of a secret, without the backslashes before it: searching for these would be slow. */
function prefixPattern(secret: string): string {
  const [first = '', ...others] = secret.replace(/^\\+/, '').slice(0, PREFIX_LENGTH);
  return `(?:${literalPattern(first)}|${escapePattern(first)})${others.map(formsOf).join('')}`;
}

/** The start of the backslashes before a character, but not before `from`. */
function escapeStart(text: string, at: number, from: number): number {
  const min = Math.max(from, at - MAX_BACKSLASHES);
  let start = at;
  while (start > min && text.charCodeAt(start - 1) === BACKSLASH) start--;
  return start;
}

/** Pattern of the forms of a character, as {@link formEnd} compares them. */
function formsOf(character: string): string {
  const backslashes = `\\\\{0,${MAX_BACKSLASHES}}`;
  if (character === '\\') return `${backslashes}(?:${escapePattern(character)})?`;
  return `${backslashes}(?:${literalPattern(character)}|${escapePattern(character)})`;
}

function literalPattern(character: string): string {
  return `\\x${hexOf(character)}`;
}

/** Without its backslashes. */
function escapePattern(character: string): string {
  return `u00${hexOf(character).replace(/[a-f]/, (digit) => `[${digit}${digit.toUpperCase()}]`)}`;
}

function hexOf(character: string): string {
  return character.charCodeAt(0).toString(16).padStart(2, '0');
}

function occurrenceEnd(text: string, start: number, secret: string): number {
  let at = start;
  for (let index = 0; index < secret.length; index++) {
    at = formEnd(text, at, secret.charCodeAt(index));
    if (at < 0) return at;
  }
  return at;
}

/** The end of a form of one character in a text. */
function formEnd(text: string, start: number, code: number): number {
  let at = start;
  while (text.charCodeAt(at) === BACKSLASH && at - start <= MAX_BACKSLASHES) at++;
  const backslashes = at - start;
  if (backslashes > MAX_BACKSLASHES) return ABSENT;
  if (at === text.length) return INCOMPLETE;
  const found = text.charCodeAt(at);
  if (found === LOWER_U && backslashes > 0) {
    const digits = text.slice(at + 1, at + 5).toLowerCase();
    const escaped = code.toString(16).padStart(4, '0');
    if (digits === escaped) return at + 5;
    if (at + 5 > text.length && escaped.startsWith(digits)) return INCOMPLETE;
  }
  // Backslashes may be escaped any number of times, and a sequence of them is compared as one.
  if (code === BACKSLASH) return at;
  return found === code ? at + 1 : ABSENT;
}

/** Redacts a stream of bytes: unchanged chunks are passed on as they are, without waiting for the next. */
export class StreamRedactor {
  /** Returns the search for the secrets of this moment: they may change while the stream is open. */
  readonly #search: () => SecretMatcher | undefined;
  /** Bytes that may be the beginning of a secret. */
  #held: Buffer = Buffer.alloc(0);

  constructor(search: () => SecretMatcher | undefined) {
    this.#search = search;
  }

  /** Returns what can be passed on; empty if all of it may belong to a secret. */
  write(chunk: Buffer): Buffer {
    const bytes = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk]);
    this.#held = Buffer.alloc(0);
    const search = this.#search();
    if (!search) return bytes;
    const text = bytes.toString('latin1');
    const pieces: Buffer[] = [];
    let from = 0;
    for (let found = search.next(text, 0, false); found; found = search.next(text, from, false)) {
      pieces.push(bytes.subarray(from, found.start));
      if (found.end === undefined) {
        this.#held = bytes.subarray(found.start);
        return Buffer.concat(pieces);
      }
      pieces.push(Buffer.from(REDACTED));
      from = found.end;
    }
    return from === 0 ? bytes : Buffer.concat([...pieces, bytes.subarray(from)]);
  }

  /** Returns the bytes that were held back, at the end of the stream. */
  end(): Buffer {
    const text = this.#held.toString('latin1');
    return Buffer.from(this.#search()?.redact(text) ?? text, 'latin1');
  }
}

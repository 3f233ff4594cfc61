/** Maximum length of a recorded id or model, in characters. */
export const MAX_NAME_CHARACTERS = 256;

/** States of {@link JsonScanner}: what it expects next. */
const VALUE = 0;
const ELEMENT_OR_END = 1;
const KEY_OR_END = 2;
const KEY = 3;
const COLON = 4;
const COMMA_OR_END = 5;
const STRING = 6;
const ESCAPE = 7;
const HEX = 8;
const LITERAL = 9;
const NUMBER = 10;
const INVALID = 11;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;

/** Bytes that follow a backslash in an escape, except `u`. */
const SIMPLE_ESCAPES = Uint8Array.from({ length: 256 }, (_, byte) =>
  '"\\/bfnrt'.includes(String.fromCharCode(byte)) ? 1 : 0,
);
/** Bytes that end a run of plain characters in a string. */
const SPECIAL = Uint8Array.from({ length: 256 }, (_, byte) =>
  byte < 0x20 || byte === QUOTE || byte === BACKSLASH ? 1 : 0,
);
const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf]);
const LITERALS = { t: Buffer.from('true'), f: Buffer.from('false'), n: Buffer.from('null') };
const NUMBER_TEXT = /^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$/;

/** Longer numbers are treated as invalid: their text is buffered. */
const MAX_NUMBER_CHARACTERS = 4096;

/**
 * Incremental JSON scanner: validates JSON in chunks that may end anywhere, and captures the members `id`, `model` and
 * `messages` of a top-level object. This way a large body is never parsed at once, which would block the event
 * loop (architecture, "Speed"). Takes about 1 ms per MiB.
 *
 * Invalid UTF-8 is accepted in strings, because common parsers replace it.
 */
export class JsonScanner {
  /** Member `id`, if it is a string of 1 to 256 characters. */
  id: string | undefined = undefined;
  /** Member `model`, likewise. */
  model: string | undefined = undefined;
  /** Whether a member `messages` is an array. */
  hasMessages = false;
  /** Length of the byte order mark at the beginning. */
  bomBytes = 0;
  /** Depth of the deepest array or object. */
  maxDepth = 0;
  #state = VALUE;
  /** 1 for each open object, 0 for each open array. */
  #open = new Uint8Array(64);
  #depth = 0;
  /** Whether the current string is a key. */
  #inKey = false;
  /** Last key of the top-level object, if it is not too long. */
  #key = '';
  readonly #capture = new StringCapture();
  #hexDigits = 0;
  #literal = LITERALS.n;
  #literalBytes = 0;
  #number = '';
  #started = false;

  /** Whether the bytes cannot be the beginning of JSON. */
  get isInvalid(): boolean {
    return this.#state === INVALID;
  }

  /** Whether the bytes are one JSON value. */
  get isComplete(): boolean {
    if (this.#depth > 0) return false;
    return this.#state === COMMA_OR_END || (this.#state === NUMBER && NUMBER_TEXT.test(this.#number));
  }

  /** Scans the next chunk. */
  write(chunk: Buffer): void {
    let at = this.#started ? 0 : this.#skipBom(chunk);
    while (at < chunk.length && this.#state !== INVALID) {
      at = this.#state === STRING ? this.#scanString(chunk, at) : this.#scanByte(chunk, at);
    }
  }

  /** A byte order mark is not JSON, but common parsers skip it. */
  #skipBom(chunk: Buffer): number {
    let at = 0;
    while (at < chunk.length && chunk[at] === BYTE_ORDER_MARK[this.bomBytes]) {
      at++;
      this.bomBytes++;
    }
    if (at === chunk.length) return at;
    this.#started = true;
    if (this.bomBytes % BYTE_ORDER_MARK.length !== 0) this.#state = INVALID;
    return at;
  }

  /** Scans a string up to its end, an escape or the end of the chunk. */
  #scanString(chunk: Buffer, from: number): number {
    const { length } = chunk;
    let at = from;
    let byte = 0;
    while (at < length) {
      byte = chunk[at] ?? 0;
      if (SPECIAL[byte] === 1) {
        // Fast path: a complete simple escape.
        if (byte !== BACKSLASH || at + 1 === length || SIMPLE_ESCAPES[chunk[at + 1] ?? 0] === 0) break;
        at++;
      }
      at++;
    }
    this.#capture.add(chunk, from, at);
    if (at === length) return at;
    if (byte === QUOTE) this.#endString();
    else if (byte === BACKSLASH) {
      this.#capture.add(chunk, at, at + 1);
      this.#state = ESCAPE;
    } else this.#state = INVALID;
    return at + 1;
  }

  /** Scans one byte that is not a plain character of a string. */
  #scanByte(chunk: Buffer, at: number): number {
    const byte = chunk[at] ?? 0;
    switch (this.#state) {
      case ESCAPE:
      case HEX:
        this.#capture.add(chunk, at, at + 1);
        this.#escape(byte);
        return at + 1;
      case LITERAL:
        this.#state = byte === this.#literal[this.#literalBytes++] ? LITERAL : INVALID;
        if (this.#literalBytes === this.#literal.length && this.#state === LITERAL) this.#state = COMMA_OR_END;
        return at + 1;
      case NUMBER:
        return this.#scanNumber(chunk, at);
    }
    if (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09) return at + 1;
    switch (this.#state) {
      case ELEMENT_OR_END:
        if (byte === CLOSE_BRACKET) this.#closeContainer();
        else this.#beginValue(byte);
        break;
      case KEY_OR_END:
      case KEY:
        if (byte === QUOTE) this.#beginString(true);
        else if (byte === CLOSE_BRACE && this.#state === KEY_OR_END) this.#closeContainer();
        else this.#state = INVALID;
        break;
      case COLON:
        this.#state = byte === 0x3a ? VALUE : INVALID;
        break;
      case COMMA_OR_END:
        this.#afterValue(byte);
        break;
      default:
        this.#beginValue(byte);
    }
    return at + 1;
  }

  #escape(byte: number): void {
    if (this.#state === ESCAPE) {
      if (byte === 0x75) {
        this.#hexDigits = 0;
        this.#state = HEX;
      } else this.#state = SIMPLE_ESCAPES[byte] === 1 ? STRING : INVALID;
      return;
    }
    const isHex = (byte >= 0x30 && byte <= 0x39) || ((byte | 0x20) >= 0x61 && (byte | 0x20) <= 0x66);
    if (!isHex) this.#state = INVALID;
    else if (++this.#hexDigits === 4) this.#state = STRING;
  }

  /** Scans a number, without the byte that ends it. */
  #scanNumber(chunk: Buffer, from: number): number {
    let at = from;
    while (at < chunk.length && isNumeric(chunk[at] ?? 0)) at++;
    this.#number += chunk.toString('latin1', from, at);
    if (this.#number.length > MAX_NUMBER_CHARACTERS) this.#state = INVALID;
    else if (at < chunk.length) this.#state = NUMBER_TEXT.test(this.#number) ? COMMA_OR_END : INVALID;
    return at;
  }

  #beginValue(byte: number): void {
    const isTopLevelMember = this.#depth === 1 && this.#open[0] === 1;
    switch (byte) {
      case QUOTE:
        this.#beginString(false);
        return;
      case OPEN_BRACE:
        this.#openContainer(1, KEY_OR_END);
        return;
      case OPEN_BRACKET:
        if (isTopLevelMember && this.#key === 'messages') this.hasMessages = true;
        this.#openContainer(0, ELEMENT_OR_END);
        return;
      case 0x74:
      case 0x66:
      case 0x6e:
        this.#literal = byte === 0x74 ? LITERALS.t : byte === 0x66 ? LITERALS.f : LITERALS.n;
        this.#literalBytes = 1;
        this.#state = LITERAL;
        return;
    }
    this.#number = String.fromCharCode(byte);
    this.#state = byte === 0x2d || (byte >= 0x30 && byte <= 0x39) ? NUMBER : INVALID;
  }

  #openContainer(isObject: 0 | 1, state: number): void {
    if (this.#depth === this.#open.length) {
      const grown = new Uint8Array(this.#depth * 2);
      grown.set(this.#open);
      this.#open = grown;
    }
    this.#open[this.#depth++] = isObject;
    if (this.#depth > this.maxDepth) this.maxDepth = this.#depth;
    this.#state = state;
  }

  #closeContainer(): void {
    this.#depth--;
    this.#state = COMMA_OR_END;
  }

  #afterValue(byte: number): void {
    const isObject = this.#open[this.#depth - 1] === 1;
    if (this.#depth === 0) this.#state = INVALID;
    else if (byte === 0x2c) this.#state = isObject ? KEY : VALUE;
    else if (byte === (isObject ? CLOSE_BRACE : CLOSE_BRACKET)) this.#closeContainer();
    else this.#state = INVALID;
  }

  #beginString(isKey: boolean): void {
    const isTopLevelMember = this.#depth === 1 && this.#open[0] === 1;
    this.#inKey = isKey;
    this.#capture.begin(isTopLevelMember && (isKey || this.#key === 'id' || this.#key === 'model'));
    this.#state = STRING;
  }

  #endString(): void {
    this.#state = this.#inKey ? COLON : COMMA_OR_END;
    if (!this.#capture.isActive) return;
    const text = this.#capture.end();
    if (this.#inKey) this.#key = text ?? '';
    else if (this.#key === 'id') this.id = text;
    else this.model = text;
  }
}

function isNumeric(byte: number): boolean {
  return (byte >= 0x30 && byte <= 0x39) || byte === 0x2d || byte === 0x2b || byte === 0x2e || (byte | 0x20) === 0x65;
}

/** Bytes of a captured string between its quotes: each character may be an escape of six bytes. */
const MAX_CAPTURED_BYTES = MAX_NAME_CHARACTERS * 6;

/** Captures one JSON string after the other, each in chunks. */
class StringCapture {
  /** Whether the current string is captured. */
  isActive = false;
  #bytes: Buffer | undefined = undefined;
  #length = 0;

  /** Starts the next string. */
  begin(isActive: boolean): void {
    this.isActive = isActive;
    this.#length = 0;
  }

  /** Adds raw bytes from between the quotes. */
  add(chunk: Buffer, from: number, to: number): void {
    if (!this.isActive) return;
    const length = this.#length + to - from;
    // A string that is too long remains so.
    this.#length = Math.min(length, MAX_CAPTURED_BYTES + 1);
    if (length > MAX_CAPTURED_BYTES) return;
    this.#bytes ??= Buffer.allocUnsafeSlow(MAX_CAPTURED_BYTES);
    chunk.copy(this.#bytes, length - to + from, from, to);
  }

  /** Returns the string, if it is neither empty nor longer than {@link MAX_NAME_CHARACTERS}. */
  end(): string | undefined {
    if (this.#length > MAX_CAPTURED_BYTES) return undefined;
    const raw = this.#bytes?.toString('utf8', 0, this.#length) ?? '';
    const text: unknown = raw.includes('\\') ? JSON.parse(`"${raw}"`) : raw;
    return typeof text === 'string' && text !== '' && text.length <= MAX_NAME_CHARACTERS ? text : undefined;
  }
}

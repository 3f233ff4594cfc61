/** The longest text that is taken, in characters. */
export const LONGEST_NAME = 256;
/** Each character may be written as an escape of six. */
const MOST_BYTES = LONGEST_NAME * 6;

/** The text of one JSON string after the other, of which each comes in pieces. */
export class CapturedText {
  /** Whether the string being read is wanted. */
  active = false;
  #bytes: Buffer | undefined = undefined;
  #length = 0;

  /** A string begins; `wanted` or not. */
  begin(wanted: boolean): void {
    this.active = wanted;
    this.#length = 0;
  }

  /** More of what stands between the quotes, as it is spelled. */
  add(chunk: Buffer, from: number, to: number): void {
    if (!this.active) return;
    const length = this.#length + to - from;
    // What is too long stays so.
    this.#length = Math.min(length, MOST_BYTES + 1);
    if (length > MOST_BYTES) return;
    this.#bytes ??= Buffer.allocUnsafeSlow(MOST_BYTES);
    chunk.copy(this.#bytes, length - to + from, from, to);
  }

  /** The string has ended: its text, where it is neither empty nor longer than {@link LONGEST_NAME}. */
  end(): string | undefined {
    if (this.#length > MOST_BYTES) return undefined;
    const spelled = this.#bytes?.toString('utf8', 0, this.#length) ?? '';
    const text: unknown = spelled.includes('\\') ? JSON.parse(`"${spelled}"`) : spelled;
    return typeof text === 'string' && text !== '' && text.length <= LONGEST_NAME ? text : undefined;
  }
}

/** What one state of {@link JsonScanner} waits for. */
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
const BROKEN = 11;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;

/** What stands behind a backslash, besides `u`. */
const ESCAPED = Uint8Array.from({ length: 256 }, (_, byte) =>
  '"\\/bfnrt'.includes(String.fromCharCode(byte)) ? 1 : 0,
);
/** Bytes that are no plain characters of a string. */
const SPECIAL = Uint8Array.from({ length: 256 }, (_, byte) =>
  byte < 0x20 || byte === QUOTE || byte === BACKSLASH ? 1 : 0,
);
const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf]);
const LITERALS = { t: Buffer.from('true'), f: Buffer.from('false'), n: Buffer.from('null') };
const NUMBER_TEXT = /^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$/;

/**
 * Reads JSON as its bytes come, in pieces that may end anywhere, and keeps of it what a record needs: whether it is JSON
 * at all, and the members `id`, `model` and `messages` of an object that is the whole. So a large body is never parsed
 * at its end in one go, which would hold up everybody else (architecture, "Speed"). About 1 ms per MiB.
 *
 * Bytes that are no UTF-8 count as characters, because readers that replace them are common.
 */
export class JsonScanner {
  /** The member `id` of the object, where it is a text of at most 256 characters. */
  id: string | undefined = undefined;
  /** The member `model`, likewise. */
  model: string | undefined = undefined;
  /** Whether there is a member `messages` that is an array; of several of the name one is enough. */
  hasMessages = false;
  /** Bytes of the byte order mark that it begins with. */
  markBytes = 0;
  /** The most arrays and objects that stood in each other. */
  deepest = 0;
  #state = VALUE;
  /** Of each array and object that is open, whether it is an object. */
  #open = new Uint8Array(64);
  #depth = 0;
  /** Whether the string being read is a key. */
  #inKey = false;
  /** The last key of the outermost object, as far as it matters. */
  #key = '';
  readonly #captured = new CapturedText();
  #hexDigits = 0;
  #literal = LITERALS.n;
  #literalBytes = 0;
  #number = '';
  #started = false;

  /** No JSON can come of it any more. */
  get broken(): boolean {
    return this.#state === BROKEN;
  }

  /** Whether all that was written is one JSON value. */
  get complete(): boolean {
    if (this.#depth > 0) return false;
    return this.#state === COMMA_OR_END || (this.#state === NUMBER && NUMBER_TEXT.test(this.#number));
  }

  /** Reads the next bytes. */
  write(chunk: Buffer): void {
    let at = this.#started ? 0 : this.#passMark(chunk);
    while (at < chunk.length && this.#state !== BROKEN) {
      at = this.#state === STRING ? this.#string(chunk, at) : this.#step(chunk, at);
    }
  }

  /** A byte order mark is no JSON, but readers that pass over it are common. */
  #passMark(chunk: Buffer): number {
    let at = 0;
    while (at < chunk.length && chunk[at] === BYTE_ORDER_MARK[this.markBytes]) {
      at++;
      this.markBytes++;
    }
    if (at === chunk.length) return at;
    this.#started = true;
    if (this.markBytes % BYTE_ORDER_MARK.length !== 0) this.#state = BROKEN;
    return at;
  }

  /** Reads on in a string, to its end, an escape or the end of the chunk. */
  #string(chunk: Buffer, from: number): number {
    const { length } = chunk;
    let at = from;
    let byte = 0;
    while (at < length) {
      byte = chunk[at] ?? 0;
      if (SPECIAL[byte] === 1) {
        // An escape that is all here, which is what most are.
        if (byte !== BACKSLASH || at + 1 === length || ESCAPED[chunk[at + 1] ?? 0] === 0) break;
        at++;
      }
      at++;
    }
    this.#captured.add(chunk, from, at);
    if (at === length) return at;
    if (byte === QUOTE) this.#endString();
    else if (byte === BACKSLASH) {
      this.#captured.add(chunk, at, at + 1);
      this.#state = ESCAPE;
    } else this.#state = BROKEN;
    return at + 1;
  }

  /** Reads one byte outside the plain characters of a string. */
  #step(chunk: Buffer, at: number): number {
    const byte = chunk[at] ?? 0;
    switch (this.#state) {
      case ESCAPE:
      case HEX:
        this.#captured.add(chunk, at, at + 1);
        this.#escape(byte);
        return at + 1;
      case LITERAL:
        this.#state = byte === this.#literal[this.#literalBytes++] ? LITERAL : BROKEN;
        if (this.#literalBytes === this.#literal.length && this.#state === LITERAL) this.#state = COMMA_OR_END;
        return at + 1;
      case NUMBER:
        return this.#digits(chunk, at);
    }
    if (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09) return at + 1;
    switch (this.#state) {
      case ELEMENT_OR_END:
        if (byte === CLOSE_BRACKET) this.#close();
        else this.#value(byte);
        break;
      case KEY_OR_END:
      case KEY:
        if (byte === QUOTE) this.#beginString(true);
        else if (byte === CLOSE_BRACE && this.#state === KEY_OR_END) this.#close();
        else this.#state = BROKEN;
        break;
      case COLON:
        this.#state = byte === 0x3a ? VALUE : BROKEN;
        break;
      case COMMA_OR_END:
        this.#afterValue(byte);
        break;
      default:
        this.#value(byte);
    }
    return at + 1;
  }

  #escape(byte: number): void {
    if (this.#state === ESCAPE) {
      if (byte === 0x75) {
        this.#hexDigits = 0;
        this.#state = HEX;
      } else this.#state = ESCAPED[byte] === 1 ? STRING : BROKEN;
      return;
    }
    const isHex = (byte >= 0x30 && byte <= 0x39) || ((byte | 0x20) >= 0x61 && (byte | 0x20) <= 0x66);
    if (!isHex) this.#state = BROKEN;
    else if (++this.#hexDigits === 4) this.#state = STRING;
  }

  /** Reads on in a number; the byte that ends it is not read. */
  #digits(chunk: Buffer, from: number): number {
    let at = from;
    while (at < chunk.length && isNumeric(chunk[at] ?? 0)) at++;
    this.#number += chunk.toString('latin1', from, at);
    // Nobody writes such a number, and it would be kept.
    if (this.#number.length > 4096) this.#state = BROKEN;
    else if (at < chunk.length) this.#state = NUMBER_TEXT.test(this.#number) ? COMMA_OR_END : BROKEN;
    return at;
  }

  #value(byte: number): void {
    const ofObject = this.#depth === 1 && this.#open[0] === 1;
    switch (byte) {
      case QUOTE:
        this.#beginString(false);
        return;
      case OPEN_BRACE:
        this.#begin(1, KEY_OR_END);
        return;
      case OPEN_BRACKET:
        if (ofObject && this.#key === 'messages') this.hasMessages = true;
        this.#begin(0, ELEMENT_OR_END);
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
    this.#state = byte === 0x2d || (byte >= 0x30 && byte <= 0x39) ? NUMBER : BROKEN;
  }

  #begin(isObject: 0 | 1, state: number): void {
    if (this.#depth === this.#open.length) {
      const grown = new Uint8Array(this.#depth * 2);
      grown.set(this.#open);
      this.#open = grown;
    }
    this.#open[this.#depth++] = isObject;
    if (this.#depth > this.deepest) this.deepest = this.#depth;
    this.#state = state;
  }

  #close(): void {
    this.#depth--;
    this.#state = COMMA_OR_END;
  }

  #afterValue(byte: number): void {
    const isObject = this.#open[this.#depth - 1] === 1;
    if (this.#depth === 0) this.#state = BROKEN;
    else if (byte === 0x2c) this.#state = isObject ? KEY : VALUE;
    else if (byte === (isObject ? CLOSE_BRACE : CLOSE_BRACKET)) this.#close();
    else this.#state = BROKEN;
  }

  #beginString(isKey: boolean): void {
    const ofObject = this.#depth === 1 && this.#open[0] === 1;
    this.#inKey = isKey;
    this.#captured.begin(ofObject && (isKey || this.#key === 'id' || this.#key === 'model'));
    this.#state = STRING;
  }

  #endString(): void {
    this.#state = this.#inKey ? COLON : COMMA_OR_END;
    if (!this.#captured.active) return;
    const text = this.#captured.end();
    if (this.#inKey) this.#key = text ?? '';
    else if (this.#key === 'id') this.id = text;
    else this.model = text;
  }
}

function isNumeric(byte: number): boolean {
  return (byte >= 0x30 && byte <= 0x39) || byte === 0x2d || byte === 0x2b || byte === 0x2e || (byte | 0x20) === 0x65;
}

const CR = 13;
const LF = 10;
const COLON = 58;
const SPACE = 32;
const TAB = 9;
const EMPTY = Buffer.alloc(0);

const TOKEN = 1;
const TEXT = 2;
const BLANK = 4;
/**
 * Character classes of bytes: {@link TOKEN} of field names, {@link TEXT} of field values and reason phrases, {@link BLANK}
 * around field values (RFC 9110 5).
 */
const BYTES = Uint8Array.from({ length: 256 }, (_, byte) => {
  const token = /[!#$%&'*+\-.^_`|~0-9A-Za-z]/.test(String.fromCharCode(byte)) ? TOKEN : 0;
  const text = byte === TAB || (byte >= SPACE && byte !== 127) ? TEXT : 0;
  return token | text | (byte === TAB || byte === SPACE ? BLANK : 0);
});

/**
 * Bytes that are not strict HTTP/1.1. Nothing after them on their connection can be trusted. The message contains nothing
 * that was received.
 */
export class MalformedMessage extends Error {
  override readonly name = 'MalformedMessage';
  /** `too-large`: the head or the trailers exceed the limit. */
  readonly kind: 'invalid' | 'too-large';

  constructor(reason: string, kind: 'invalid' | 'too-large' = 'invalid') {
    super(reason);
    this.kind = kind;
  }
}

/** Returns names and values, alternating, of the field lines from `start` to the empty line that ends the text. */
export function parseFields(text: string, start: number): string[] {
  const raw: string[] = [];
  let at = start;
  while (text.charCodeAt(at) !== CR) {
    const nameStart = at;
    while (((BYTES[text.charCodeAt(at)] ?? 0) & TOKEN) !== 0) at++;
    // Whitespace before the colon and folded lines are rejected.
    if (at === nameStart || text.charCodeAt(at) !== COLON) throw new MalformedMessage('invalid header name');
    const name = text.slice(nameStart, at);
    let valueStart = at + 1;
    while (((BYTES[text.charCodeAt(valueStart)] ?? 0) & BLANK) !== 0) valueStart++;
    at = lineEnd(text, valueStart);
    let valueEnd = at;
    while (valueEnd > valueStart && ((BYTES[text.charCodeAt(valueEnd - 1)] ?? 0) & BLANK) !== 0) valueEnd--;
    raw.push(name, text.slice(valueStart, valueEnd));
    at += 2;
  }
  if (at !== text.length - 2) throw new MalformedMessage('CR without LF');
  return raw;
}

/** Returns the index of the CR LF that ends the line. Throws for bytes that are not allowed before it. */
export function lineEnd(text: string, start: number): number {
  let at = start;
  while (((BYTES[text.charCodeAt(at)] ?? 0) & TEXT) !== 0) at++;
  if (text.charCodeAt(at) !== CR || text.charCodeAt(at + 1) !== LF) {
    throw new MalformedMessage('control character in a line');
  }
  return at;
}

/** Returns the value of a `Content-Length` header. */
export function parseContentLength(value: string): number {
  if (!/^\d{1,15}$/.test(value)) throw new MalformedMessage('invalid Content-Length');
  return Number(value);
}

/** Validates the trailer section of a chunked body. */
function checkTrailers(text: string): void {
  const raw = parseFields(text, 0);
  for (let index = 0; index < raw.length; index += 2) {
    const name = (raw[index] ?? '').toLowerCase();
    if (name === 'content-length' || name === 'transfer-encoding') {
      throw new MalformedMessage('framing header in the trailers');
    }
  }
}

/**
 * Returns a copy of a part of a body, whose buffer is used again. Not a view: a large body is freed as soon as it has been
 * forwarded (`ChunkBuffer.free`).
 */
export function copyOf(buffer: Buffer, start: number, end: number): Buffer {
  const copy = Buffer.allocUnsafe(end - start);
  buffer.copy(copy, 0, start, end);
  return copy;
}

/** Length of a body in bytes, or what its end is marked by; `interim` for a head that another one of the same message follows. */
export type Framing = number | 'chunked' | 'until-close' | 'interim';

/** Messages of one kind. */
export interface MessageFormat<Head> {
  /** What errors name. */
  readonly kind: 'request' | 'response';
  /**
   * Where an empty line before a head is skipped, at most one per message: at the start of any message, or only between two of
   * them.
   */
  readonly emptyLine: 'before' | 'between';
  /** Parses a head, decoded as latin1, from the first line to the empty line. */
  parseHead(text: string): Head;
  /** Whether the same text would result in the same head as the last one; always by default. */
  readonly isCurrent?: () => boolean;
  /** Returns the framing of the body. `isLate`: an empty line was skipped before the head. */
  framing(head: Head, isLate: boolean): Framing;
  /** Rejects an incomplete head that cannot become a valid one. */
  checkStart(text: string): void;
}

/** Receives parsed messages. */
export interface MessageSink<Head> {
  /** Head of a message; interim ones are skipped. */
  onHead(head: Head): void;
  /** Part of the body: bytes `start` to `end` of the buffer passed to `execute`, valid during the call only. */
  onBody(buffer: Buffer, start: number, end: number): void;
}

/** Part of the message that the next byte belongs to. */
type State = 'head' | 'fixed' | 'until-close' | 'size' | 'chunk' | 'chunk-cr' | 'chunk-lf' | 'trailers' | 'done';

/** Limit of a head in bytes by default, and of the trailers, which are discarded. */
export const MAX_HEAD_BYTES = 16 * 1024;
/** Heads up to this size are kept for comparison with the next one. */
const MAX_KEPT_HEAD_BYTES = 2 * 1024;
/** Limit of a chunk-size line including its extensions. */
const MAX_SIZE_LINE_BYTES = 1024;
/** Chunks up to this size are joined with what precedes them. */
const SMALL_CHUNK_BYTES = 4 * 1024;
/** Digits of a chunk size that need no regular expression. */
const MAX_SIMPLE_DIGITS = 7;
const NO_DIGIT = 255;
/** Values of hexadecimal digits by their bytes. */
const HEX_DIGITS = Uint8Array.from({ length: 256 }, (_, byte) => {
  const character = String.fromCharCode(byte);
  return /[\da-f]/i.test(character) ? Number.parseInt(character, 16) : NO_DIGIT;
});
/** A chunk size below 2^52 and its extensions (RFC 9112 7.1.1), which are discarded. */
const SIZE_LINE =
  /^([\da-f]{1,13})(?:;[!#$%&'*+\-.^_`|~\da-z]+(?:=(?:[!#$%&'*+\-.^_`|~\da-z]+|"(?:[\t \x21\x23-\x5b\x5d-\x7e]|\\[\t\x20-\x7e])*"))?)*\r\n$/i;

/**
 * Parser of the messages on one connection: `execute` for every chunk of input until `done`, then `reset`. Only the framing
 * is parsed byte by byte; heads are parsed when they are complete, and bodies are passed on in place. Where RFC 9112 leaves
 * a choice, whatever two parsers could interpret differently is rejected with a {@link MalformedMessage}.
 */
export class MessageParser<Head> {
  /** Set in a callback to make `execute` return. */
  halted = false;
  readonly #format: MessageFormat<Head>;
  readonly #sink: MessageSink<Head>;
  readonly #maxHeadBytes: number;
  #state: State = 'head';
  /** Remaining bytes of the fixed-length body or the chunk. */
  #remaining = 0;
  /** Incomplete head, trailers or chunk-size line. */
  #partial = '';
  /** Part of a chunked body in the current input that was not passed on yet; it ends at 0 if there is none. */
  #partStart = 0;
  #partEnd = 0;
  /** Number of bytes of the current line, and the last byte. */
  #lineBytes = 0;
  #lastByte = 0;
  /** The last head and its bytes: messages on one connection often have the same one, which is then not parsed again. */
  #lastBytes: Buffer = EMPTY;
  #lastLength = 0;
  #lastHead: Head | undefined = undefined;
  /** Number of bytes of an empty line before the head that were skipped. */
  #skippedBytes = 0;
  #allowsEmptyLine: boolean;

  constructor(format: MessageFormat<Head>, sink: MessageSink<Head>, maxHeadBytes: number = MAX_HEAD_BYTES) {
    this.#format = format;
    this.#sink = sink;
    this.#maxHeadBytes = maxHeadBytes;
    this.#allowsEmptyLine = format.emptyLine === 'before';
  }

  /** True when the message is complete. */
  get done(): boolean {
    return this.#state === 'done';
  }

  /** True after the first byte of the message; an empty line before it and interim heads do not count. */
  get hasBegun(): boolean {
    return this.#state !== 'head' || this.#partial !== '';
  }

  /** True between the end of the head and the end of the message. */
  get inBody(): boolean {
    return this.#state !== 'head' && this.#state !== 'done';
  }

  /** Prepares for the next message. */
  reset(): void {
    this.#state = 'head';
    this.#skippedBytes = 0;
    this.#allowsEmptyLine = true;
  }

  /**
   * Parses input and returns the index of the first byte that was not consumed: `end`, unless the message is complete or
   * `halted` was set. Small chunks are moved together in the buffer. Throws {@link MalformedMessage}, after the body before the
   * error was passed on.
   */
  execute(buffer: Buffer, start: number, end: number): number {
    try {
      return this.#parse(buffer, start, end);
    } finally {
      if (this.#partEnd > 0) this.#passPart(buffer);
    }
  }

  #parse(buffer: Buffer, start: number, end: number): number {
    let at = start;
    while (at < end && !this.halted && this.#state !== 'done') {
      switch (this.#state) {
        case 'head':
          at = this.#head(buffer, at, end);
          break;
        case 'trailers':
          at = this.#block(buffer, at, end);
          break;
        case 'size':
          at = this.#size(buffer, at, end);
          break;
        case 'fixed':
          at = this.#body(buffer, at, Math.min(end, at + this.#remaining));
          break;
        case 'chunk':
          at = this.#chunk(buffer, at, Math.min(end, at + this.#remaining));
          break;
        case 'until-close':
          this.#sink.onBody(buffer, at, end);
          at = end;
          break;
        case 'chunk-cr':
        case 'chunk-lf':
          if (buffer[at] !== (this.#state === 'chunk-cr' ? CR : LF)) {
            throw new MalformedMessage('chunk longer than its size');
          }
          this.#state = this.#state === 'chunk-cr' ? 'chunk-lf' : 'size';
          at++;
          break;
      }
    }
    return at;
  }

  /** Handles the end of the input. Returns whether the message is complete. */
  finish(): boolean {
    if (this.#state === 'until-close') this.#state = 'done';
    return this.done;
  }

  #head(buffer: Buffer, start: number, end: number): number {
    if (this.#partial === '' && this.#skipsByte(buffer[start])) return start + 1;
    const length = this.#lastLength;
    if (this.#lastHead === undefined || this.#partial !== '' || end - start < length) {
      return this.#block(buffer, start, end);
    }
    // Equal bytes end with the first empty line, like the last head.
    const isLast = buffer.compare(this.#lastBytes, 0, length, start, start + length) === 0;
    if (!isLast || this.#format.isCurrent?.() === false) return this.#block(buffer, start, end);
    this.#begin(this.#lastHead);
    return start + length;
  }

  #begin(head: Head): void {
    const framing = this.#format.framing(head, this.#skippedBytes > 0);
    this.#allowsEmptyLine = false;
    if (framing === 'interim') return;
    if (typeof framing === 'number') this.#remaining = framing;
    this.#state =
      framing === 0 ? 'done' : framing === 'chunked' ? 'size' : framing === 'until-close' ? framing : 'fixed';
    this.#sink.onHead(head);
  }

  /** Skips an empty line, which may arrive in two pieces. */
  #skipsByte(byte: number | undefined): boolean {
    if (this.#skippedBytes === 1) {
      if (byte !== LF) throw new MalformedMessage('CR without LF');
    } else if (byte !== CR || this.#skippedBytes > 0 || !this.#allowsEmptyLine) {
      return false;
    }
    this.#skippedBytes++;
    return true;
  }

  /** Consumes lines up to an empty one; checks only line ends, each byte once. */
  #block(buffer: Buffer, start: number, end: number): number {
    let lineBytes = this.#lineBytes;
    let lastByte = this.#lastByte;
    for (let at = start; at < end; at++) {
      const byte = buffer[at] ?? 0;
      if (byte !== LF) {
        lineBytes++;
      } else {
        if (lastByte !== CR) throw new MalformedMessage('LF without CR');
        if (lineBytes === 1) {
          const text = this.#upTo(buffer, start, at + 1);
          this.#partial = '';
          this.#lineBytes = 0;
          this.#lastByte = 0;
          this.#blockEnd(text);
          return at + 1;
        }
        lineBytes = 0;
      }
      lastByte = byte;
    }
    this.#lineBytes = lineBytes;
    this.#lastByte = lastByte;
    this.#partial = this.#upTo(buffer, start, end);
    if (this.#state === 'head') this.#format.checkStart(this.#partial);
    return end;
  }

  #blockEnd(text: string): void {
    if (this.#state === 'trailers') {
      // An empty line ends the body without trailers, as nearly always.
      if (text.length > 2) checkTrailers(text);
      this.#state = 'done';
      return;
    }
    const head = this.#format.parseHead(text);
    const isKept = text.length <= MAX_KEPT_HEAD_BYTES;
    if (isKept) this.#keepBytes(text);
    this.#lastHead = isKept ? head : undefined;
    this.#begin(head);
  }

  #keepBytes(text: string): void {
    // Not from the pool of Node.js: a part of a pool's buffer retains all of it.
    if (this.#lastBytes.length < text.length) this.#lastBytes = Buffer.allocUnsafeSlow(text.length);
    this.#lastLength = this.#lastBytes.write(text, 'latin1');
  }

  /** Consumes a chunk-size line. */
  #size(buffer: Buffer, start: number, end: number): number {
    const simple = this.#partial === '' ? this.#simpleSize(buffer, start, end) : 0;
    if (simple > 0) return simple;
    let at = start;
    while (at < end && buffer[at] !== LF) at++;
    const complete = at < end;
    if (complete) at++;
    const line = this.#upTo(buffer, start, at);
    this.#partial = complete ? '' : line;
    if (!complete) return at;
    const size = SIZE_LINE.exec(line)?.[1];
    if (size === undefined) throw new MalformedMessage('invalid chunk size');
    this.#beginChunk(Number.parseInt(size, 16));
    return at;
  }

  /** Consumes a chunk-size line of few digits without extensions, as nearly always; returns 0 for every other one. */
  #simpleSize(buffer: Buffer, start: number, end: number): number {
    let size = 0;
    let at = start;
    for (const limit = Math.min(end, start + MAX_SIMPLE_DIGITS); at < limit; at++) {
      const digit = HEX_DIGITS[buffer[at] ?? 0] ?? NO_DIGIT;
      if (digit === NO_DIGIT) break;
      size = size * 16 + digit;
    }
    if (at === start || at + 1 >= end || buffer[at] !== CR || buffer[at + 1] !== LF) return 0;
    this.#beginChunk(size);
    return at + 2;
  }

  #beginChunk(size: number): void {
    this.#remaining = size;
    this.#state = size === 0 ? 'trailers' : 'chunk';
  }

  /** Consumes bytes of a fixed-length body. */
  #body(buffer: Buffer, start: number, end: number): number {
    this.#remaining -= end - start;
    if (this.#remaining === 0) this.#state = 'done';
    this.#sink.onBody(buffer, start, end);
    return end;
  }

  /** Consumes bytes of a chunk. The sender chooses its size: for each byte, a callback and a buffer would cost 400 times a byte. */
  #chunk(buffer: Buffer, start: number, end: number): number {
    if (this.#partEnd === 0) {
      this.#partStart = start;
      this.#partEnd = end;
    } else if (end - start <= SMALL_CHUNK_BYTES) {
      // Over the framing, which has been read.
      buffer.copyWithin(this.#partEnd, start, end);
      this.#partEnd += end - start;
    } else {
      this.#passPart(buffer);
      if (this.halted) return start;
      this.#partStart = start;
      this.#partEnd = end;
    }
    this.#remaining -= end - start;
    if (this.#remaining === 0) this.#state = 'chunk-cr';
    return end;
  }

  #passPart(buffer: Buffer): void {
    const end = this.#partEnd;
    this.#partEnd = 0;
    this.#sink.onBody(buffer, this.#partStart, end);
  }

  /** What was received of a head, or of a line, before the latest bytes. */
  get unparsed(): string {
    return this.#partial;
  }

  /** What was received of the current head, trailers or line. */
  #upTo(buffer: Buffer, start: number, end: number): string {
    const limit = this.#state === 'size' ? MAX_SIZE_LINE_BYTES : this.#maxHeadBytes;
    if (this.#partial.length + end - start > limit) {
      const part = this.#state === 'head' ? 'headers' : this.#state === 'size' ? 'chunk-size line' : this.#state;
      throw new MalformedMessage(
        `${this.#format.kind} ${part} too large: the limit is ${limit} bytes, which is fixed`,
        'too-large',
      );
    }
    const text = buffer.toString('latin1', start, end);
    return this.#partial === '' ? text : this.#partial + text;
  }
}

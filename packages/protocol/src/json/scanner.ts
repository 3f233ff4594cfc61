import {
  BEYOND_ASCII,
  DEPTH,
  DONE,
  IN_KEY,
  INVALID,
  KERNEL,
  MAX_DEPTH,
  MAX_INPUT,
  PROGRESS,
  RESULT,
  SIZE,
  STATE,
} from './skip.ts';

/** Kind of a JSON value. */
export type JsonKind = 'object' | 'array' | 'string' | 'number' | 'boolean' | 'null';

/**
 * Receives what a {@link JsonScanner} finds: the value of the text, and the members and elements of containers that the
 * sink has entered. Everything else is only validated. Offsets count the bytes of all chunks.
 */
export interface JsonSink {
  /** The value at offset `start` begins. Returns true to enter a container, or to receive a scalar. */
  onValue(kind: JsonKind, start: number): boolean;
  /** The key of the next value, with its quotes; see {@link JsonScanner.token}. */
  onKey(start: number, end: number): void;
  /** A scalar that the sink wants; see {@link JsonScanner.token}. `onEnd` follows. */
  onScalar(): void;
  /** The value that began last and has not ended ends before offset `end`. Not called for a number at the top level. */
  onEnd(end: number): void;
}

/** Longest text of a key or scalar that is available to a sink, in bytes. */
export const MAX_TOKEN_BYTES = 64 * 1024;

/** States, as in `assembly/skip.ts`: what is expected next. Others are within a token. */
const VALUE = 0;
const ELEMENT_OR_END = 1;
const KEY_OR_END = 2;
const KEY = 3;
const COLON = 4;
const COMMA_OR_END = 5;
/** First and last state in which a number may end. */
const ZERO = 12;
const EXPONENT_DIGITS = 15;
const REJECTED = -1;
/** Of a chunk that the kernel does not have yet. */
const NO_INPUT = -1;

const QUOTE = 0x22;
const COMMA = 0x2c;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;

/** Kind of a value by its first byte. */
export const KINDS: readonly (JsonKind | undefined)[] = Array.from({ length: 256 }, (_, byte) => {
  const first = String.fromCharCode(byte);
  if (first === '{') return 'object';
  if (first === '[') return 'array';
  if (first === '"') return 'string';
  if (first === 't' || first === 'f') return 'boolean';
  if (first === 'n') return 'null';
  return '-0123456789'.includes(first) ? 'number' : undefined;
});

/**
 * Incremental JSON scanner: validates JSON in chunks that may end anywhere, and passes the shallow structure to a sink.
 * Large or hostile texts are never parsed at once, which would block the event loop and need many times their size in
 * memory. What the sink does not enter is skipped by WebAssembly (`skip.ts`) in 0.2 to 2 ms per MiB.
 *
 * Accepts what `JSON.parse` accepts, and invalid UTF-8 in strings, because common parsers replace it. A sink may use other
 * scanners, but must not write to its own.
 */
export class JsonScanner {
  /** Depth of the deepest array or object so far. */
  maxDepth = 0;
  /** Number of arrays, objects and commas so far: about the number of values and members, which parsing takes time for. */
  size = 0;
  /** Number of bytes up to the first invalid one, or all so far. */
  offset = 0;
  /** Whether all bytes so far are ASCII. */
  isAscii = true;
  readonly #sink: JsonSink;
  #state = VALUE;
  /** True within a key or a value that was not entered. */
  #isSkipping = false;
  /** Progress within a token that continues in the next chunk. */
  #progress = 0;
  #inKey = 0;
  /** 1 for each open object, 0 for each open array. */
  #open: Uint8Array = new Uint8Array(32);
  #depth = 0;
  /** Number of open containers that the sink has entered: always the outermost ones. */
  #entered = 0;
  /** Range of the captured token in the current chunk; `#from` is -1 without one. */
  #from = -1;
  #to = 0;
  #chunk: Buffer | undefined = undefined;
  /** Which input of the kernel is the current chunk. */
  #input = NO_INPUT;
  /** The captured token in previous chunks: at most its first {@link MAX_TOKEN_BYTES}. */
  #before: Buffer[] = [];
  /** Bytes of the captured token in previous chunks. */
  #beforeBytes = 0;

  constructor(sink: JsonSink) {
    this.#sink = sink;
  }

  /** Whether the bytes cannot be the beginning of JSON. */
  get isInvalid(): boolean {
    return this.#state === REJECTED;
  }

  /** Whether the bytes are one JSON value. */
  get isComplete(): boolean {
    if (this.#depth > 0) return false;
    return this.#state === COMMA_OR_END || (this.#state >= ZERO && this.#state <= EXPONENT_DIGITS);
  }

  /** Text of the key or scalar during `onKey` and `onScalar`; undefined if it exceeds {@link MAX_TOKEN_BYTES}. */
  get token(): string | undefined {
    if (this.tokenLength > MAX_TOKEN_BYTES) return undefined;
    if (this.#beforeBytes === 0 && this.#chunk) return this.#chunk.toString('utf8', this.#from, this.#to);
    return this.tokenStart().toString();
  }

  /** Length of the key or scalar in bytes, during `onKey` and `onScalar`. */
  get tokenLength(): number {
    return this.#beforeBytes + this.#to - this.#from;
  }

  /** The first bytes of the key or scalar during `onKey` and `onScalar`: at most {@link MAX_TOKEN_BYTES}. */
  tokenStart(maxBytes = MAX_TOKEN_BYTES): Buffer {
    const [first] = this.#before;
    if (first && first.length >= maxBytes) return first.subarray(0, maxBytes);
    const last = this.#chunk?.subarray(this.#from, Math.min(this.#to, this.#from + maxBytes)) ?? Buffer.alloc(0);
    return first ? Buffer.concat([...this.#before, last]).subarray(0, maxBytes) : last;
  }

  /** Leaves the innermost container that the sink has entered: the rest of it is only validated, until its `onEnd`. */
  leave(): void {
    this.#entered = Math.max(0, this.#entered - 1);
  }

  /** Scans the next chunk. */
  write(chunk: Buffer): void {
    if (chunk.length <= MAX_INPUT) return this.#scan(chunk);
    for (let from = 0; from < chunk.length; from += MAX_INPUT) this.#scan(chunk.subarray(from, from + MAX_INPUT));
  }

  #scan(chunk: Buffer): void {
    if (this.#state === REJECTED) return;
    this.#chunk = chunk;
    this.#input = NO_INPUT;
    let at = 0;
    while (at < chunk.length && this.#state !== REJECTED) {
      const isSkipping = this.#isSkipping || this.#depth > this.#entered;
      at = isSkipping ? this.#skip(chunk, at) : this.#scanStructure(chunk, at);
    }
    if (this.#from >= 0) this.#retain(chunk);
    this.#chunk = undefined;
    this.offset += at;
  }

  /** Scans punctuation, white space and short tokens, up to a longer key or value that the sink does not enter. */
  #scanStructure(chunk: Buffer, from: number): number {
    for (let at = from; at < chunk.length; at++) {
      const byte = chunk[at] ?? 0;
      if (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09) continue;
      const isObject = this.#open[this.#depth - 1] === 1;
      switch (this.#state) {
        case COMMA_OR_END:
          if (this.#depth > 0 && byte === COMMA) {
            this.#state = isObject ? KEY : VALUE;
            this.size++;
          } else if (this.#depth > 0 && byte === (isObject ? CLOSE_BRACE : CLOSE_BRACKET)) this.#close(at);
          else return this.#reject(at);
          break;
        case COLON:
          if (byte !== 0x3a) return this.#reject(at);
          this.#state = VALUE;
          break;
        case KEY:
        case KEY_OR_END:
          if (byte === QUOTE) {
            this.#from = at;
            const end = shortTokenEnd(chunk, at);
            if (end > 0) {
              this.#inKey = 1;
              this.#end(end);
              at = end - 1;
              break;
            }
            this.#isSkipping = true;
            return at;
          }
          if (byte !== CLOSE_BRACE || this.#state === KEY) return this.#reject(at);
          this.#close(at);
          break;
        default: {
          if (byte === CLOSE_BRACKET && this.#state === ELEMENT_OR_END) {
            this.#close(at);
            break;
          }
          const kind = KINDS[byte];
          if (kind === undefined) return this.#reject(at);
          const isWanted = this.#sink.onValue(kind, this.offset + at);
          const isContainer = byte === OPEN_BRACE || byte === OPEN_BRACKET;
          if (!isContainer || !isWanted) {
            if (isWanted) this.#from = at;
            const end = this.#depth > 0 ? shortTokenEnd(chunk, at) : 0;
            if (end > 0) {
              this.#end(end);
              at = end - 1;
              break;
            }
            this.#isSkipping = true;
            return at;
          }
          this.size++;
          this.#setOpen(this.#depth, byte === OPEN_BRACE ? OBJECT : ARRAY);
          this.#entered = ++this.#depth;
          if (this.#depth > this.maxDepth) this.maxDepth = this.#depth;
          this.#state = byte === OPEN_BRACE ? KEY_OR_END : ELEMENT_OR_END;
        }
      }
      // The sink has left the container.
      if (this.#depth > this.#entered) return at + 1;
    }
    return chunk.length;
  }

  /** Skips a key, a value, or the rest of containers that the sink has left. */
  #skip(chunk: Buffer, from: number): number {
    const { registers, open } = KERNEL;
    // All scanners share the memory of the kernel, and the sink may have used another one.
    if (KERNEL.inputs !== this.#input) {
      KERNEL.input.set(chunk);
      this.#input = ++KERNEL.inputs;
    }
    const count = Math.min(this.#depth - this.#entered, MAX_INPUT);
    const base = this.#depth - count;
    if (count > 0) open.set(this.#open.subarray(base, this.#depth));
    registers[STATE] = this.#state;
    registers[DEPTH] = count;
    registers[IN_KEY] = this.#inKey;
    registers[PROGRESS] = this.#progress;
    registers[BEYOND_ASCII] = 0;
    const at = KERNEL.skip(from, chunk.length);
    const result = registers[RESULT];
    if (registers[BEYOND_ASCII] === 1) this.isAscii = false;
    if (result === INVALID) return this.#reject(at);
    const depth = registers[DEPTH] ?? 0;
    const maxDepth = base + (registers[MAX_DEPTH] ?? 0);
    this.#state = registers[STATE] ?? 0;
    this.#inKey = registers[IN_KEY] ?? 0;
    this.#progress = registers[PROGRESS] ?? 0;
    this.size += registers[SIZE] ?? 0;
    this.#depth = base + depth;
    if (depth > 0) this.#setOpen(base, open.subarray(0, depth));
    if (maxDepth > this.maxDepth) this.maxDepth = maxDepth;
    if (result === DONE && this.#depth === this.#entered) this.#end(at);
    return at;
  }

  /** Sets open containers from `depth` on. */
  #setOpen(depth: number, open: Uint8Array): void {
    if (depth + open.length > this.#open.length) {
      const grown = new Uint8Array(Math.max(this.#open.length * 2, depth + open.length));
      grown.set(this.#open);
      this.#open = grown;
    }
    this.#open.set(open, depth);
  }

  /** Closes a container that the sink has entered. */
  #close(at: number): void {
    this.#entered = --this.#depth;
    this.#state = COMMA_OR_END;
    this.#sink.onEnd(this.offset + at + 1);
  }

  /** Ends a key, or a value that the sink has not entered. */
  #end(to: number): void {
    const isKey = this.#inKey === 1;
    this.#inKey = 0;
    this.#isSkipping = false;
    this.#state = isKey ? COLON : COMMA_OR_END;
    if (this.#from >= 0) {
      this.#to = to;
      if (isKey) this.#sink.onKey(this.offset + this.#from - this.#beforeBytes, this.offset + to);
      else this.#sink.onScalar();
      this.#from = -1;
      if (this.#beforeBytes > 0) this.#before = [];
      this.#beforeBytes = 0;
    }
    if (!isKey) this.#sink.onEnd(this.offset + to);
  }

  #reject(at: number): number {
    this.#state = REJECTED;
    this.#from = -1;
    return at;
  }

  /** Retains a captured token that continues in the next chunk. */
  #retain(chunk: Buffer): void {
    const room = MAX_TOKEN_BYTES - this.#beforeBytes;
    if (room > 0) this.#before.push(Buffer.from(chunk.subarray(this.#from, this.#from + room)));
    this.#beforeBytes += chunk.length - this.#from;
    this.#from = 0;
  }
}

/** Tokens up to this length are read here: a call of the kernel costs more. */
const SHORT_BYTES = 40;

/** Bytes of ASCII that a string contains as they are: 1, others 0. */
const PLAIN = Uint8Array.from({ length: 256 }, (_, byte) =>
  byte >= 0x20 && byte < 0x80 && byte !== QUOTE && byte !== 0x5c ? 1 : 0,
);

/** End of a short string without escapes, or of a short positive integer, that begins at `at`; 0 for everything else. */
function shortTokenEnd(chunk: Buffer, at: number): number {
  const limit = Math.min(chunk.length, at + SHORT_BYTES);
  const first = chunk[at] ?? 0;
  let end = at + 1;
  if (first === QUOTE) {
    while (end < limit && PLAIN[chunk[end] ?? 0] === 1) end++;
    return end < limit && chunk[end] === QUOTE ? end + 1 : 0;
  }
  if (first < 0x31 || first > 0x39) return 0;
  while (end < limit && isDigit(chunk[end] ?? 0)) end++;
  const next = end < limit ? chunk[end] : undefined;
  return next === COMMA || next === CLOSE_BRACE || next === CLOSE_BRACKET ? end : 0;
}

function isDigit(byte: number): boolean {
  return byte >= 0x30 && byte <= 0x39;
}

const OBJECT = Uint8Array.of(1);
const ARRAY = Uint8Array.of(0);

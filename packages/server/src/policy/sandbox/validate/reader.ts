/**
 * File that is not a usable component. Operators see the message as a warning of `PUT /evaluators`: it contains the
 * problem and the remedy, and text of the file only escaped.
 */
export class InvalidComponentError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(printable(message, 200), options);
  }
}

/** Escapes a text of a file or a tool as printable ASCII, truncated to `maxLength` characters. */
export function printable(text: string, maxLength: number): string {
  const cut = text.slice(0, maxLength + 1);
  const escaped = cut.replace(/[^\x20-\x7e]/g, (unit) => `\\u{${unit.charCodeAt(0).toString(16)}}`);
  return escaped.length > maxLength ? `${escaped.slice(0, maxLength - 3)}...` : escaped;
}

/** Name in double quotes, truncated to 64 characters. */
export function quote(name: string): string {
  return `"${printable(name, 64)}"`;
}

/** Limits of a component (64 MiB of memory in total); memories in pages of 64 KiB, tables in elements. */
export const COMPONENT_LIMITS = {
  /** Compiling 30 MiB takes up to 440 MiB of the 512 MiB that are allowed. */
  fileBytes: 30 * 1024 * 1024,
  coreModules: 128,
  coreInstances: 256,
  components: 64,
  memoryPages: 1024,
  tables: 32,
  tableElements: 100_000,
  allTableElements: 400_000,
} as const;

/** What is counted, with its limit. */
const COUNTED = {
  coreModules: [COMPONENT_LIMITS.coreModules, 'core modules'],
  coreInstances: [COMPONENT_LIMITS.coreInstances, 'core instances'],
  components: [COMPONENT_LIMITS.components, 'nested components'],
  memoryPages: [COMPONENT_LIMITS.memoryPages, 'pages of initial memory'],
  tables: [COMPONENT_LIMITS.tables, 'tables'],
  tableElements: [COMPONENT_LIMITS.allTableElements, 'elements in all tables'],
} as const;

/** Counts of the contents of a component. */
export class ComponentCounts {
  coreModules = 0;
  /** Core instances that instantiating the component creates, nested components included. */
  coreInstances = 0;
  components = 0;
  memoryPages = 0;
  tables = 0;
  tableElements = 0;

  /** Throws `InvalidComponentError` as soon as the limit is exceeded. */
  add(what: keyof typeof COUNTED, count = 1): void {
    this[what] += count;
    const [maximum, name] = COUNTED[what];
    checkLimit(this[what], maximum, name);
  }
}

/** Throws `InvalidComponentError` if a count exceeds its limit. */
export function checkLimit(count: number, maximum: number, what: string): void {
  if (count > maximum) {
    throw new InvalidComponentError(`too many ${what}: ${count}, maximum ${maximum}; make the component smaller`);
  }
}

/**
 * Lower-case names that have another meaning in glue, and that jco does not avoid for functions and variables, unlike
 * keywords: globals, members of every object, and `then`, which `await` looks up.
 */
const RESERVED_NAMES = new Set(
  `arguments then undefined globalthis global process console isfinite isnan parsefloat parseint escape unescape
  decodeuri encodeuri decodeuricomponent encodeuricomponent fetch queuemicrotask structuredclone atob btoa settimeout
  setinterval setimmediate cleartimeout clearinterval clearimmediate navigator performance crypto require
  constructor prototype hasownproperty isprototypeof propertyisenumerable tolocalestring tostring valueof`.split(/\s+/),
);

/** Identifiers of the glue itself. */
const GLUE_NAMES = new RegExp(
  '^(?:(?:exports|memory|module|table|realloc|trampoline|callback|handle|handletable|instanceflags|postreturn)\\d+(?:async)?' +
    '|getcoremodule|instantiatecore)$',
);

/**
 * Whether a function, interface or variable of this name would shadow a name of JavaScript or of the glue itself: glue
 * declares `function isFinite(...)` for an export `is-finite`, and `let undefined` for `a/undefined`.
 */
export function isReservedName(name: string): boolean {
  const [last = ''] = (name.split('/').at(-1) ?? '').split('@');
  const flat = last.replace(/[^A-Za-z0-9]/g, '').toLowerCase();
  return RESERVED_NAMES.has(flat) || GLUE_NAMES.test(flat);
}

/**
 * Reader of WebAssembly's binary encoding, confined to a range of bytes. Throws `InvalidComponentError` for invalid
 * input. Every read advances, so a walk takes linear time.
 */
export class ByteReader {
  readonly bytes: Uint8Array;
  readonly end: number;
  at: number;
  readonly #isWholeFile: boolean;

  constructor(bytes: Uint8Array, at = 0, end = bytes.length) {
    this.bytes = bytes;
    this.at = at;
    this.end = end;
    this.#isWholeFile = at === 0 && end === bytes.length;
  }

  get isDone(): boolean {
    return this.at >= this.end;
  }

  byte(): number {
    const byte = this.at < this.end ? this.bytes[this.at] : undefined;
    if (byte === undefined) throw this.#truncated(1);
    this.at += 1;
    return byte;
  }

  /** Reads an unsigned LEB128 of at most 32 bits. */
  u32(): number {
    let value = 0;
    for (let shift = 0; shift < 35; shift += 7) {
      const byte = this.byte();
      if (shift === 28 && byte > 0x0f) break;
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return value;
    }
    throw this.malformed('integer exceeds 32 bits');
  }

  /** Reads a signed LEB128 of at most 33 bits. */
  s33(): number {
    let value = 0;
    for (let shift = 0; shift < 35; shift += 7) {
      const byte = this.byte();
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return byte & 0x40 ? value - 2 ** (shift + 7) : value;
    }
    throw this.malformed('integer exceeds 33 bits');
  }

  /** Skips the next `length` bytes and returns a reader of them. */
  part(length: number): ByteReader {
    const missing = length - (this.end - this.at);
    if (missing > 0) throw this.#truncated(missing);
    const start = this.at;
    this.at += length;
    return new ByteReader(this.bytes, start, this.at);
  }

  /** Remaining bytes. */
  rest(): Uint8Array {
    return this.bytes.subarray(this.at, this.end);
  }

  /** Reads a name: its length and that many bytes. */
  nameBytes(): Uint8Array {
    const part = this.part(this.u32());
    return this.bytes.subarray(part.at, part.end);
  }

  /** Reads a count and calls `item` that many times. */
  vector(item: () => unknown): void {
    const count = this.u32();
    // An item takes at least one byte, so a larger count is rejected up front.
    if (count > this.end - this.at) throw this.malformed('unexpected end');
    for (let index = 0; index < count; index += 1) item();
  }

  /** Reads a count and that many items. */
  list<T>(item: () => T): T[] {
    const items: T[] = [];
    this.vector(() => items.push(item()));
    return items;
  }

  /** Throws unless all bytes were read. */
  finish(): void {
    if (!this.isDone) throw this.malformed('unexpected trailing bytes');
  }

  malformed(problem: string): InvalidComponentError {
    return new InvalidComponentError(`not a valid component: ${problem} (at byte ${this.at}); rebuild the action`);
  }

  /** A file that ends too early is truncated; a section that does is malformed. */
  #truncated(missing: number): InvalidComponentError {
    if (!this.#isWholeFile) return this.malformed('unexpected end');
    const bytes = missing === 1 ? 'byte' : 'bytes';
    return new InvalidComponentError(
      `truncated component: ends after ${this.end} bytes, at least ${missing} ${bytes} missing; copy or rebuild it`,
    );
  }
}

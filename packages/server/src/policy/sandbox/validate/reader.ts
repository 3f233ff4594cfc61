/**
 * Why a file is no action. The message is for the operator who reads the warning of `PUT /evaluators`: it says what is
 * wrong and what to do, and carries nothing of the file unescaped.
 */
export class InvalidComponentError extends Error {
  constructor(what: string, options?: ErrorOptions) {
    super(shown(what, 200), options);
  }
}

/** A text of a file or of a tool as a message may carry it: printable ASCII only, cut at `most` characters. */
export function shown(text: string, most: number): string {
  const cut = text.slice(0, most + 1);
  const escaped = cut.replace(/[^\x20-\x7e]/g, (unit) => `\\u{${unit.charCodeAt(0).toString(16)}}`);
  return escaped.length > most ? `${escaped.slice(0, most - 3)}...` : escaped;
}

/** A name of a file in double quotes, at most 64 characters of it. */
export function quoted(name: string): string {
  return `"${shown(name, 64)}"`;
}

/** What a component may have (decisions 4.9: memories of 64 MiB in all). Memories in pages of 64 KiB, tables in elements. */
export const limits = {
  /** Compiling one of 30 MiB was seen to take 440 MiB, of the 512 that it has. */
  fileBytes: 30 * 1024 * 1024,
  coreModules: 128,
  coreInstances: 256,
  components: 64,
  memoryPages: 1024,
  tables: 32,
  tableElements: 100_000,
  allTableElements: 400_000,
} as const;

/** Counts what a walk meets, and throws `ComponentRefusal` as soon as something is too much. */
export class Tally {
  coreModules = 0;
  coreInstances = 0;
  components = 0;
  memoryPages = 0;
  tables = 0;
  tableElements = 0;

  coreModule(): void {
    this.coreModules += 1;
    this.#refuse(this.coreModules, limits.coreModules, 'core modules');
  }

  /** How many core instances there are in all when the component is instantiated, those of nested ones each time. */
  allCoreInstances(count: number): void {
    this.coreInstances = count;
    this.#refuse(count, limits.coreInstances, 'core instances');
  }

  /** One inside another. */
  component(): void {
    this.components += 1;
    this.#refuse(this.components, limits.components, 'nested components');
  }

  memory(minimum: number): void {
    this.memoryPages += minimum;
    this.#refuse(this.memoryPages, limits.memoryPages, 'pages of memory to begin with');
  }

  table(minimum: number): void {
    this.tables += 1;
    this.tableElements += minimum;
    this.#refuse(this.tables, limits.tables, 'tables');
    this.#refuse(minimum, limits.tableElements, 'elements in a table');
    this.#refuse(this.tableElements, limits.allTableElements, 'elements in its tables');
  }

  #refuse(count: number, most: number, what: string): void {
    if (count > most)
      throw new InvalidComponentError(`it has ${count} ${what}, actions may have ${most}; make it smaller`);
  }
}

/** Throws `ComponentRefusal` for a file that is too large to be looked at. */
export function checkSize(bytes: Uint8Array): void {
  if (bytes.length > limits.fileBytes) {
    throw new InvalidComponentError(
      `it has ${bytes.length} bytes, actions may have ${limits.fileBytes}; leave out debug information`,
    );
  }
}

/**
 * Names, in small letters, that glue would give to a function or variable although they mean something else in it: jco
 * evades reserved words but not these. Globals, what every object has, and what whoever awaits something looks for.
 */
const words = new Set(
  `arguments then undefined globalthis global process console isfinite isnan parsefloat parseint escape unescape
  decodeuri encodeuri decodeuricomponent encodeuricomponent fetch queuemicrotask structuredclone atob btoa settimeout
  setinterval setimmediate cleartimeout clearinterval clearimmediate navigator performance crypto require
  constructor prototype hasownproperty isprototypeof propertyisenumerable tolocalestring tostring valueof`.split(/\s+/),
);

/** What the glue calls its own parts. */
const parts = new RegExp(
  '^(?:(?:exports|memory|module|table|realloc|trampoline|callback|handle|handletable|instanceflags|postreturn)\\d+(?:async)?' +
    '|getcoremodule|instantiatecore)$',
);

/**
 * Whether a function, interface or variable of this name would, in glue, stand in the way of something of JavaScript's or
 * of the glue's own: glue declares `function isFinite(...)` for an export `is-finite`, `let undefined` for `a/undefined`.
 */
export function isScriptWord(name: string): boolean {
  const [last = ''] = (name.split('/').at(-1) ?? '').split('@');
  const flat = last.replace(/[^A-Za-z0-9]/g, '').toLowerCase();
  return words.has(flat) || parts.test(flat);
}

/**
 * Reads WebAssembly's binary encoding between two positions and never outside them. Whatever does not fit throws a
 * `ComponentRefusal`; every read moves on, so a walk takes time linear in the bytes.
 */
export class ByteReader {
  readonly bytes: Uint8Array;
  readonly end: number;
  at: number;
  readonly #whole: boolean;

  constructor(bytes: Uint8Array, at = 0, end = bytes.length) {
    this.bytes = bytes;
    this.at = at;
    this.end = end;
    this.#whole = at === 0 && end === bytes.length;
  }

  get done(): boolean {
    return this.at >= this.end;
  }

  byte(): number {
    const byte = this.at < this.end ? this.bytes[this.at] : undefined;
    if (byte === undefined) throw this.#short(1);
    this.at += 1;
    return byte;
  }

  /** An unsigned LEB128 of 32 bits. */
  u32(): number {
    let value = 0;
    for (let shift = 0; shift < 35; shift += 7) {
      const byte = this.byte();
      if (shift === 28 && byte > 0x0f) break;
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return value;
    }
    throw this.malformed('has a number of more than 32 bits');
  }

  /** Passes over a signed LEB128 of at most 33 bits and returns it. */
  s33(): number {
    let value = 0;
    for (let shift = 0; shift < 35; shift += 7) {
      const byte = this.byte();
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return byte & 0x40 ? value - 2 ** (shift + 7) : value;
    }
    throw this.malformed('has a number of more than 33 bits');
  }

  /** A reader of the next `length` bytes, which this one passes over. */
  part(length: number): ByteReader {
    const missing = length - (this.end - this.at);
    if (missing > 0) throw this.#short(missing);
    const start = this.at;
    this.at += length;
    return new ByteReader(this.bytes, start, this.at);
  }

  /** All bytes that are left. */
  rest(): Uint8Array {
    return this.bytes.subarray(this.at, this.end);
  }

  /** The bytes of a name: a length and that many bytes. */
  nameBytes(): Uint8Array {
    const part = this.part(this.u32());
    return this.bytes.subarray(part.at, part.end);
  }

  /** Calls `item` as often as the number that comes next says. */
  vector(item: () => void): void {
    const count = this.u32();
    // Every item takes a byte at least: a count beyond that is refused before anything is done so often.
    if (count > this.end - this.at) throw this.malformed('ends too early');
    for (let index = 0; index < count; index += 1) item();
  }

  /** Throws unless everything was read. */
  finish(): void {
    if (!this.done) throw this.malformed('has bytes that belong to nothing');
  }

  malformed(what: string): InvalidComponentError {
    return new InvalidComponentError(`not a valid component: at byte ${this.at} it ${what}; build the action anew`);
  }

  /** The whole of a file that ends before what is in it was cut off; a part of it that does is wrong. */
  #short(missing: number): InvalidComponentError {
    if (!this.#whole) return this.malformed('ends too early');
    const bytes = missing === 1 ? 'byte is' : 'bytes are';
    return new InvalidComponentError(
      `not a whole component: it is cut off after ${this.end} bytes, at least ${missing} ${bytes} missing; copy it or build it anew`,
    );
  }
}

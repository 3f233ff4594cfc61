import { ByteReader, InvalidComponentError, limits } from './reader.ts';

/** Limits of a memory (pages) or table (elements), and where their bytes are. */
export interface Limits {
  readonly minimum: number;
  readonly maximum: number | undefined;
  /** Position of the byte of flags. */
  readonly start: number;
  /** Position after the last number. */
  readonly end: number;
}

/** A section of memories or tables that a module defines. */
export interface LimitsSection {
  /** Position of the section's id. */
  readonly start: number;
  /** Position after its size. */
  readonly contents: number;
  readonly end: number;
  readonly items: readonly Limits[];
}

/** What a core module says of itself that counts here. */
export interface CoreModule {
  readonly memories: LimitsSection | undefined;
  readonly tables: LimitsSection | undefined;
}

const magic = [0x00, 0x61, 0x73, 0x6d];

/** Whether bytes begin as a core module (version 1) does. */
export function isCoreModule(bytes: Uint8Array): boolean {
  return startsWith(bytes, [...magic, 0x01, 0x00, 0x00, 0x00]);
}

/** Whether bytes begin as a component does, of the only version there is. */
export function isComponent(bytes: Uint8Array): boolean {
  return startsWith(bytes, [...magic, 0x0d, 0x00, 0x01, 0x00]);
}

/** What is done with the names of a core module; it may throw. */
export interface CoreNames {
  /** Of where an import comes from, and of the import. */
  imported(name: Uint8Array): void;
  exported(name: Uint8Array): void;
}

/**
 * Walks a core module: every name of its imports and exports is given to `names`, its memories and tables are
 * returned. What is not known, and memories and tables that nobody can bound (64 bits, shared), throw
 * `ComponentRefusal`. Whether the module is valid otherwise is for others to say.
 */
export function walkCoreModule(reader: ByteReader, names: CoreNames): CoreModule {
  if (!isCoreModule(reader.part(8).rest())) throw reader.malformed('has a core module of an unknown version');
  let memories: LimitsSection | undefined;
  let tables: LimitsSection | undefined;
  while (!reader.done) {
    const start = reader.at;
    const id = reader.byte();
    const section = reader.part(reader.u32());
    const contents = section.at;
    switch (id) {
      case 2:
        section.vector(() => coreImport(section, names));
        section.finish();
        break;
      case 4:
        if (tables) throw reader.malformed('has a section twice');
        tables = { start, contents, end: section.end, items: limitsOf(section, tableType) };
        break;
      case 5:
        if (memories) throw reader.malformed('has a section twice');
        memories = { start, contents, end: section.end, items: limitsOf(section, memoryType) };
        break;
      case 7:
        section.vector(() => {
          names.exported(section.nameBytes());
          section.byte();
          section.u32();
        });
        section.finish();
        break;
      default:
        // Custom, types, functions, globals, start, elements, code, data, data count and tags carry no names.
        if (id > 13) throw reader.malformed(`has a section of the unknown kind ${id} in a core module`);
    }
  }
  return { memories, tables };
}

function startsWith(bytes: Uint8Array, start: readonly number[]): boolean {
  return start.every((byte, index) => bytes[index] === byte);
}

function limitsOf(section: ByteReader, type: (section: ByteReader) => Limits): Limits[] {
  const items: Limits[] = [];
  section.vector(() => {
    items.push(type(section));
  });
  section.finish();
  return items;
}

function coreImport(section: ByteReader, names: CoreNames): void {
  names.imported(section.nameBytes());
  names.imported(section.nameBytes());
  const kind = section.byte();
  switch (kind) {
    case 0x00:
      section.u32();
      return;
    case 0x01:
      tableType(section);
      return;
    case 0x02:
      memoryType(section);
      return;
    case 0x03:
      valueType(section);
      section.byte();
      return;
    case 0x04:
      section.byte();
      section.u32();
      return;
    default:
      throw section.malformed(`imports something of the unknown kind ${kind} into a core module`);
  }
}

function tableType(section: ByteReader): Limits {
  if (section.bytes[section.at] === 0x40) {
    throw new InvalidComponentError('it has a table with an initial value, which actions cannot use; build it without');
  }
  valueType(section);
  return sizeLimits(section, 'table');
}

function memoryType(section: ByteReader): Limits {
  return sizeLimits(section, 'memory');
}

/** Passes over a type: one byte, but for references, which name a heap type. */
function valueType(section: ByteReader): void {
  const type = section.byte();
  if (type === 0x63 || type === 0x64) section.s33();
  else if (type < 0x69 || type > 0x7f) throw section.malformed(`uses the unknown type ${type} in a core module`);
}

function sizeLimits(section: ByteReader, what: 'memory' | 'table'): Limits {
  const start = section.at;
  const flags = section.byte();
  if (flags > 1) {
    throw new InvalidComponentError(
      `it has a ${what} that is shared, of 64 bits or of another page size, which actions cannot use; build it for wasm32`,
    );
  }
  const minimum = section.u32();
  const maximum = flags === 1 ? section.u32() : undefined;
  return { minimum, maximum, start, end: section.at };
}

/** A core module whose memories and tables cannot grow without end. */
export interface BoundedModule {
  readonly bytes: Uint8Array;
  /** How many pages of 64 KiB the memories of one instance of it may come to. */
  readonly pages: number;
}

/**
 * Gives every memory that the modules define a maximum, so that one instance of each of them has at most `pages` in
 * all, and every table one within `elements`. What is left beyond the minimums is shared out by them; who declares that
 * it wants less leaves the rest to others. Modules that need no change are returned as they are; in the others only
 * limits (and the size of their section) change. Further instances of a module are for the host to count.
 * Throws `ComponentRefusal` for what is no core module; minimums beyond the sum have been refused before.
 */
export function boundMemories(
  modules: readonly Uint8Array[],
  pages: number = limits.memoryPages,
  elements: number = limits.allTableElements,
): BoundedModule[] {
  const walked = modules.map((bytes) => ({ bytes, ...walkCoreModule(new ByteReader(bytes), anyNames) }));
  const memories = maximaOf(walked, 'memories', pages);
  const tables = maximaOf(walked, 'tables', elements);
  return walked.map((module) => ({
    bytes: rewritten(module.bytes, module, memories, tables),
    pages: sumOf(module.memories, memories),
  }));
}

/** Names were judged in the component; what jco adds itself (adapters between components) has names of its own. */
const anyNames: CoreNames = { imported: () => {}, exported: () => {} };

type Maxima = ReadonlyMap<Limits, number>;

/**
 * The maximum of every memory or table: its minimum, and of what is left of `budget` a share that is the larger the more
 * it begins with. An adapter's page beside an engine's memory is not to take half of it.
 */
function maximaOf(modules: readonly CoreModule[], what: 'memories' | 'tables', budget: number): Maxima {
  const items = modules.flatMap((module) => module[what]?.items ?? []);
  const room = items.map((item) => {
    const wanted = Math.max(0, (item.maximum ?? Number.POSITIVE_INFINITY) - item.minimum);
    const weight = item.minimum + 1;
    return { item, wanted, weight, part: wanted / weight };
  });
  // Who wants less than its part leaves the rest to those after it.
  room.sort((one, another) => (one.part < another.part ? -1 : 1));
  let weights = room.reduce((sum, { weight }) => sum + weight, 0);
  let left = Math.max(
    0,
    items.reduce((rest, item) => rest - item.minimum, budget),
  );
  const maxima = new Map<Limits, number>();
  for (const { item, wanted, weight } of room) {
    const share = Math.min(wanted, Math.floor((left * weight) / weights));
    maxima.set(item, item.minimum + share);
    left -= share;
    weights -= weight;
  }
  return maxima;
}

function sumOf(section: LimitsSection | undefined, maxima: Maxima): number {
  return (section?.items ?? []).reduce((sum, item) => sum + (maxima.get(item) ?? item.minimum), 0);
}

function rewritten(bytes: Uint8Array, { memories, tables }: CoreModule, ofMemories: Maxima, ofTables: Maxima) {
  const changes: { start: number; end: number; replacement: Uint8Array }[] = [];
  for (const [section, maxima] of [
    [memories, ofMemories],
    [tables, ofTables],
  ] as const) {
    if (!section?.items.some((item) => item.maximum !== maxima.get(item))) continue;
    changes.push({ start: section.start, end: section.end, replacement: withMaxima(bytes, section, maxima) });
  }
  changes.sort((one, another) => one.start - another.start);
  return splice(bytes, changes);
}

/** A section anew: what stands between limits (a count, types of elements) is taken over. */
function withMaxima(bytes: Uint8Array, section: LimitsSection, maxima: Maxima): Uint8Array {
  const contents = splice(
    bytes.subarray(0, section.end),
    section.items.map((item) => ({
      start: item.start,
      end: item.end,
      replacement: Uint8Array.from([0x01, ...leb128(item.minimum), ...leb128(maxima.get(item) ?? item.minimum)]),
    })),
  ).subarray(section.contents);
  return Uint8Array.from([
    ...bytes.subarray(section.start, section.start + 1),
    ...leb128(contents.length),
    ...contents,
  ]);
}

/** Bytes with some ranges replaced; the ranges are in order. The same object when there are none. */
function splice(
  bytes: Uint8Array,
  changes: readonly { start: number; end: number; replacement: Uint8Array }[],
): Uint8Array {
  if (changes.length === 0) return bytes;
  const parts: Uint8Array[] = [];
  let at = 0;
  for (const { start, end, replacement } of changes) {
    parts.push(bytes.subarray(at, start), replacement);
    at = end;
  }
  return Uint8Array.from(Buffer.concat([...parts, bytes.subarray(at)]));
}

/** An unsigned LEB128. */
function leb128(value: number): number[] {
  return value < 0x80 ? [value] : [(value % 0x80) + 0x80, ...leb128(Math.floor(value / 0x80))];
}

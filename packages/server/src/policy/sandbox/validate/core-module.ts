import { ByteReader, COMPONENT_LIMITS, InvalidComponentError } from './reader.ts';

/** Limits of a memory (in pages) or table (in elements), and their position in the module. */
export interface Limits {
  readonly minimum: number;
  readonly maximum: number | undefined;
  /** Position of the flags byte. */
  readonly start: number;
  /** Position after the last limit. */
  readonly end: number;
}

/** Memories or tables that a core module defines. */
export interface LimitsSection {
  readonly what: 'memory' | 'table';
  /** Position of the section id. */
  readonly start: number;
  /** Position after the section size. */
  readonly contents: number;
  readonly end: number;
  readonly items: readonly Limits[];
}

const MAGIC = [0x00, 0x61, 0x73, 0x6d];

/** Whether bytes have the header of a core module (version 1). */
export function isCoreModule(bytes: Uint8Array): boolean {
  return startsWith(bytes, [...MAGIC, 0x01, 0x00, 0x00, 0x00]);
}

/** Whether bytes have the header of a component (version 13, layer 1). */
export function isComponent(bytes: Uint8Array): boolean {
  return startsWith(bytes, [...MAGIC, 0x0d, 0x00, 0x01, 0x00]);
}

/** Callbacks for the names of a core module; they may throw. */
export interface CoreNames {
  /** Called for the module name and the field name of an import. */
  imported(name: Uint8Array): void;
  exported(name: Uint8Array): void;
}

/**
 * Walks a core module: passes every name of its imports and exports to `names` and returns its memories and tables, in order.
 * Throws `InvalidComponentError` for unknown constructs and for memories and tables that cannot be bounded (64-bit,
 * shared). Does not validate the rest of the module.
 */
export function walkCoreModule(reader: ByteReader, names: CoreNames): LimitsSection[] {
  if (!isCoreModule(reader.part(8).rest())) throw reader.malformed('unsupported core module version');
  const sections: LimitsSection[] = [];
  while (!reader.isDone) {
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
      case 5: {
        const what = id === 4 ? 'table' : 'memory';
        if (sections.some((earlier) => earlier.what === what)) {
          throw reader.malformed('duplicate section in a core module');
        }
        const items = section.list(() => (id === 4 ? tableType(section) : sizeLimits(section, what)));
        section.finish();
        sections.push({ what, start, contents, end: section.end, items });
        break;
      }
      case 7:
        section.vector(() => {
          names.exported(section.nameBytes());
          section.byte();
          section.u32();
        });
        section.finish();
        break;
      default:
        // Custom, type, function, global, start, element, code, data, data count and tag sections have no names.
        if (id > 13) throw reader.malformed(`unknown section ${id} in a core module`);
    }
  }
  return sections;
}

function startsWith(bytes: Uint8Array, start: readonly number[]): boolean {
  return start.every((byte, index) => bytes[index] === byte);
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
      sizeLimits(section, 'memory');
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
      throw section.malformed(`unknown import kind ${kind} in a core module`);
  }
}

function tableType(section: ByteReader): Limits {
  if (section.bytes[section.at] === 0x40) {
    throw new InvalidComponentError('table with an initial value is not supported; build the component without it');
  }
  valueType(section);
  return sizeLimits(section, 'table');
}

/** Skips a value type: one byte, except references, which are followed by a heap type. */
function valueType(section: ByteReader): void {
  const type = section.byte();
  if (type === 0x63 || type === 0x64) section.s33();
  else if (type < 0x69 || type > 0x7f) throw section.malformed(`unknown value type ${type} in a core module`);
}

function sizeLimits(section: ByteReader, what: LimitsSection['what']): Limits {
  const start = section.at;
  const flags = section.byte();
  if (flags > 1) {
    throw new InvalidComponentError(
      `${what} that is shared, 64-bit or of another page size is not supported; build the component for wasm32`,
    );
  }
  const minimum = section.u32();
  const maximum = flags === 1 ? section.u32() : undefined;
  return { minimum, maximum, start, end: section.at };
}

/** Core module whose memories and tables have a maximum. */
export interface BoundedModule {
  readonly bytes: Uint8Array;
  /** Maximum total memory of an instance, in pages of 64 KiB. */
  readonly pages: number;
}

/**
 * Sets a maximum for every memory and table that the modules define, so that one instance of each module has at most
 * `pages` and `elements` in total. The space beyond the minimums is distributed in proportion to them; space that a
 * declared maximum leaves unused goes to the others. Only limits and the size of their section change; modules that
 * need no change are returned as they are. The host counts further instances of a module. Throws
 * `InvalidComponentError` for anything but core modules; `walkComponent` has already rejected minimums beyond the
 * totals.
 */
export function boundMemories(
  modules: readonly Uint8Array[],
  pages: number = COMPONENT_LIMITS.memoryPages,
  elements: number = COMPONENT_LIMITS.allTableElements,
): BoundedModule[] {
  const walked = modules.map((bytes) => ({ bytes, sections: walkCoreModule(new ByteReader(bytes), UNCHECKED_NAMES) }));
  const all = walked.flatMap(({ sections }) => sections);
  const maxima: Maxima = new Map([...maximaOf(all, 'memory', pages), ...maximaOf(all, 'table', elements)]);
  return walked.map(({ bytes, sections }) => ({
    bytes: withLimits(bytes, sections, maxima),
    pages: itemsOf(sections, 'memory').reduce((sum, item) => sum + (maxima.get(item) ?? item.minimum), 0),
  }));
}

/** Names were checked in the component; adapters that jco adds have names of their own. */
const UNCHECKED_NAMES: CoreNames = { imported: () => {}, exported: () => {} };

type Maxima = ReadonlyMap<Limits, number>;

/**
 * Maximum of every memory or table: its minimum and a share of the rest of `budget`, weighted by the minimum, so that an
 * adapter's page does not take half of the memory of an engine.
 */
function maximaOf(sections: readonly LimitsSection[], what: LimitsSection['what'], budget: number): Maxima {
  const items = itemsOf(sections, what);
  const shares = items.map((item) => {
    const growth = Math.max(0, (item.maximum ?? Number.POSITIVE_INFINITY) - item.minimum);
    const weight = item.minimum + 1;
    return { item, growth, weight, ratio: growth / weight };
  });
  // Items that want less than their share come first and leave the rest to the others.
  shares.sort((a, b) => (a.ratio < b.ratio ? -1 : 1));
  let weights = shares.reduce((sum, { weight }) => sum + weight, 0);
  let remaining = Math.max(
    0,
    items.reduce((rest, item) => rest - item.minimum, budget),
  );
  const maxima = new Map<Limits, number>();
  for (const { item, growth, weight } of shares) {
    const share = Math.min(growth, Math.floor((remaining * weight) / weights));
    maxima.set(item, item.minimum + share);
    remaining -= share;
    weights -= weight;
  }
  return maxima;
}

function itemsOf(sections: readonly LimitsSection[], what: LimitsSection['what']): Limits[] {
  return sections.flatMap((section) => (section.what === what ? section.items : []));
}

function withLimits(bytes: Uint8Array, sections: readonly LimitsSection[], maxima: Maxima): Uint8Array {
  const changed = sections.filter(({ items }) => items.some((item) => item.maximum !== maxima.get(item)));
  return replaceRanges(
    bytes,
    changed.map((section) => ({ ...section, replacement: sectionWithMaxima(bytes, section, maxima) })),
  );
}

/** Section with new limits; the bytes between them (count, element types) are copied. */
function sectionWithMaxima(bytes: Uint8Array, section: LimitsSection, maxima: Maxima): Uint8Array {
  const contents = replaceRanges(
    bytes.subarray(0, section.end),
    section.items.map((item) => ({
      ...item,
      replacement: Uint8Array.from([0x01, ...leb128(item.minimum), ...leb128(maxima.get(item) ?? item.minimum)]),
    })),
  ).subarray(section.contents);
  return Uint8Array.from([
    ...bytes.subarray(section.start, section.start + 1),
    ...leb128(contents.length),
    ...contents,
  ]);
}

/** Replaces ranges, which are in order. Returns the same object if there are none. */
function replaceRanges(
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

/** Encodes an unsigned LEB128. */
function leb128(value: number): number[] {
  return value < 0x80 ? [value] : [(value % 0x80) + 0x80, ...leb128(Math.floor(value / 0x80))];
}

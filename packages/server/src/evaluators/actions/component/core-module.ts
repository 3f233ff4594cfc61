import type { ByteReader } from './byte-reader.ts';
import { ComponentRefusal } from './refusal.ts';

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
    throw new ComponentRefusal('it has a table with an initial value, which actions cannot use; build it without');
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
    throw new ComponentRefusal(
      `it has a ${what} that is shared, of 64 bits or of another page size, which actions cannot use; build it for wasm32`,
    );
  }
  const minimum = section.u32();
  const maximum = flags === 1 ? section.u32() : undefined;
  return { minimum, maximum, start, end: section.at };
}

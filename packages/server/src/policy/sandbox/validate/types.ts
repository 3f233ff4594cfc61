import { externName, externType, type Sort, sort } from './component.ts';
import { ByteReader, InvalidComponentError } from './reader.ts';

/**
 * Component type with all references resolved: a text that is the same for equal types, or the exports of an instance. Types that
 * the interfaces of actions do not use (variants, flags, resources, streams ...) are `OTHER` in the text.
 */
export type ComponentType = string | ReadonlyMap<string, ComponentType>;

const OTHER = '?';
/** Longer types, which few bytes can describe by nesting, become `OTHER` where they are used; those of actions are shorter. */
const MAX_TEXT = 1000;

/** Whether two types are equal, of which `expected` has no `OTHER`. */
export function isSameType(expected: ComponentType, actual: ComponentType): boolean {
  return typeof expected === 'string' && !expected.includes(OTHER) && expected === actual;
}

/** Whether a type is that of a function. */
export function isFunction(type: ComponentType): boolean {
  return typeof type === 'string' && /^(?:async )?func/.test(type);
}

/** Import of a component. */
export interface ComponentImport {
  readonly name: string;
  readonly sort: Sort;
  readonly type: ComponentType;
}

/** Reads the imports of a validated component. Throws `InvalidComponentError` for encodings it does not know. */
export function importsOf(component: Uint8Array): ComponentImport[] {
  const reader = new ByteReader(component, 8);
  const scope = new Scope(undefined);
  const imports: ComponentImport[] = [];
  while (!reader.isDone) {
    const id = reader.byte();
    const section = reader.part(reader.u32());
    if (id === 5) section.vector(() => readInstance(section, scope));
    else if (id === 6) section.vector(() => readAlias(section, scope));
    else if (id === 7) section.vector(() => scope.types.push(readType(section, scope)));
    else if (id === 10) section.vector(() => imports.push(readImport(section, scope)));
    else if (id === 11) section.vector(() => readExport(section, scope));
  }
  return imports;
}

const MAX_DEPTH = 16;

/** Index spaces of a component, a component type or an instance type. */
class Scope {
  readonly types: ComponentType[] = [];
  readonly instances: ComponentType[] = [];
  readonly exports = new Map<string, ComponentType>();
  readonly outer: Scope | undefined;
  readonly depth: number;

  constructor(outer: Scope | undefined) {
    this.outer = outer;
    this.depth = outer ? outer.depth + 1 : 0;
    if (this.depth > MAX_DEPTH) {
      throw new InvalidComponentError(
        `types are nested deeper than ${MAX_DEPTH} levels; build the action with a component toolchain`,
      );
    }
  }
}

function readImport(reader: ByteReader, scope: Scope): ComponentImport {
  return { name: externName(reader), ...readExtern(reader, scope) };
}

/** Reads the type of an import or export and adds it to its index space. */
function readExtern(reader: ByteReader, scope: Scope): { readonly sort: Sort; readonly type: ComponentType } {
  const extern = externType(reader);
  const type = extern.type === undefined || extern.sort === 'core' ? OTHER : (scope.types[extern.type] ?? OTHER);
  addToIndex(extern.sort, type, scope);
  return { sort: extern.sort, type };
}

function addToIndex(kind: Sort, type: ComponentType, scope: Scope): void {
  if (kind === 'type') scope.types.push(type);
  else if (kind === 'instance') scope.instances.push(type);
}

function readAlias(reader: ByteReader, scope: Scope): void {
  const kind = sort(reader);
  const target = reader.byte();
  if (target === 0x02) {
    let from: Scope | undefined = scope;
    for (let count = reader.u32(); count > 0 && from; count -= 1) from = from.outer;
    addToIndex(kind, from?.types[reader.u32()] ?? OTHER, scope);
    return;
  }
  const instance = scope.instances[reader.u32()];
  const name = text(reader);
  const found = target === 0x00 && typeof instance === 'object' ? instance.get(name) : undefined;
  addToIndex(kind, found ?? OTHER, scope);
}

/** Instances that a component creates itself have an index too, but no import refers to them. */
function readInstance(reader: ByteReader, scope: Scope): void {
  const inline = reader.byte() === 0x01;
  if (!inline) reader.u32();
  reader.vector(() => {
    if (inline) externName(reader);
    else reader.nameBytes();
    sort(reader);
    reader.u32();
  });
  scope.instances.push(OTHER);
}

/** An export adds a new index for the exported item. */
function readExport(reader: ByteReader, scope: Scope): void {
  externName(reader);
  const kind = sort(reader);
  const index = reader.u32();
  if (reader.byte() === 0x01) externType(reader);
  const space = kind === 'type' ? scope.types : scope.instances;
  addToIndex(kind, space[index] ?? OTHER, scope);
}

/** Codes of bool, integers, floats, char, string and error contexts. */
function isPrimitive(code: number): boolean {
  return (code >= 0x73 && code <= 0x7f) || code === 0x64;
}

function readType(reader: ByteReader, scope: Scope): ComponentType {
  const code = reader.byte();
  if (isPrimitive(code)) return String(code);
  switch (code) {
    case 0x72:
      return `record(${namedTypes(reader, scope)})`;
    case 0x71:
      reader.vector(() => {
        text(reader);
        optionalType(reader, scope);
        reader.byte();
      });
      return OTHER;
    case 0x70:
      return `list(${valueType(reader, scope)})`;
    case 0x6f:
      return `tuple(${reader.list(() => valueType(reader, scope)).join()})`;
    case 0x6e:
    case 0x6d:
      reader.vector(() => text(reader));
      return OTHER;
    case 0x6b:
      return `option(${valueType(reader, scope)})`;
    case 0x6a:
      return `result(${optionalType(reader, scope)},${optionalType(reader, scope)})`;
    case 0x69:
    case 0x68:
      reader.u32();
      return OTHER;
    case 0x66:
    case 0x65:
      optionalType(reader, scope);
      return OTHER;
    case 0x43:
    case 0x40:
      return `${code === 0x43 ? 'async ' : ''}func(${namedTypes(reader, scope)}):${resultType(reader, scope)}`;
    case 0x42:
    case 0x41:
      return readInstanceType(reader, scope, code === 0x41);
    case 0x3f:
      reader.byte();
      if (reader.byte() === 0x01) reader.u32();
      return OTHER;
    default:
      throw reader.malformed(`unsupported type ${code}`);
  }
}

/** Reads an instance type, or a component type, which may have imports as well. */
function readInstanceType(reader: ByteReader, outer: Scope, isComponentType: boolean): ComponentType {
  const scope = new Scope(outer);
  reader.vector(() => {
    const form = reader.byte();
    if (form === 0x01) scope.types.push(readType(reader, scope));
    else if (form === 0x02) readAlias(reader, scope);
    else if (form === 0x03 && isComponentType) readImport(reader, scope);
    else if (form === 0x04) {
      const name = externName(reader);
      scope.exports.set(name, readExtern(reader, scope).type);
    } else throw reader.malformed(`unknown declaration ${form} in a type`);
  });
  return isComponentType ? OTHER : scope.exports;
}

function valueType(reader: ByteReader, scope: Scope): string {
  // A non-negative number is a type index; a negative one, of one byte, is a primitive.
  if (isPrimitive(reader.bytes[reader.at] ?? 0)) return String(reader.byte());
  const index = reader.s33();
  const type = index < 0 ? undefined : scope.types[index];
  if (type === undefined) throw reader.malformed('type index out of range');
  return typeof type === 'string' && type.length <= MAX_TEXT ? type : OTHER;
}

/** Empty without a type. */
function optionalType(reader: ByteReader, scope: Scope): string {
  return reader.byte() === 0x01 ? valueType(reader, scope) : '';
}

/** Empty without a result. */
function resultType(reader: ByteReader, scope: Scope): string {
  if (reader.byte() === 0x00) return valueType(reader, scope);
  // An empty list of named results, from an earlier encoding, means no result.
  if (reader.byte() !== 0x00) throw reader.malformed('functions with named results are not supported');
  return '';
}

/** Names are kebab-case, which the component tools ensure. */
function namedTypes(reader: ByteReader, scope: Scope): string {
  return reader.list(() => `${text(reader)}:${valueType(reader, scope)}`).join();
}

function text(reader: ByteReader): string {
  return Buffer.from(reader.nameBytes()).toString('latin1');
}

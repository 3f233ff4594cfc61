import { externName, externType, type Sort, sort } from './component.ts';
import { ByteReader, InvalidComponentError } from './reader.ts';

/**
 * Component type with all references resolved. Types that the interfaces of actions do not use (variants, flags,
 * resources, streams ...) are `other`.
 */
export type ComponentType =
  | { readonly kind: 'primitive'; readonly code: number }
  | { readonly kind: 'record'; readonly fields: readonly NamedType[] }
  | { readonly kind: 'tuple'; readonly of: readonly ComponentType[] }
  | { readonly kind: 'list' | 'option'; readonly of: ComponentType }
  | { readonly kind: 'result'; readonly ok: ComponentType | undefined; readonly error: ComponentType | undefined }
  | {
      readonly kind: 'func';
      readonly async: boolean;
      readonly parameters: readonly NamedType[];
      readonly result: ComponentType | undefined;
    }
  | { readonly kind: 'instance'; readonly exports: ReadonlyMap<string, ComponentType> }
  | { readonly kind: 'other' };

interface NamedType {
  readonly name: string;
  readonly type: ComponentType;
}

/** Import of a component. */
export interface ComponentImport {
  readonly name: string;
  readonly sort: 'instance' | 'type' | 'other';
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

/** Whether two types are equal. Recurses no deeper than `expected`. */
export function isSameType(expected: ComponentType | undefined, actual: ComponentType | undefined): boolean {
  if (expected === undefined || actual === undefined) return expected === actual;
  switch (expected.kind) {
    case 'primitive':
      return actual.kind === 'primitive' && actual.code === expected.code;
    case 'record':
      return actual.kind === 'record' && areSameFields(expected.fields, actual.fields);
    case 'tuple':
      return actual.kind === 'tuple' && areSameTypes(expected.of, actual.of);
    case 'list':
    case 'option':
      return actual.kind === expected.kind && isSameType(expected.of, actual.of);
    case 'result':
      return actual.kind === 'result' && isSameType(expected.ok, actual.ok) && isSameType(expected.error, actual.error);
    case 'func':
      return (
        actual.kind === 'func' &&
        actual.async === expected.async &&
        areSameFields(expected.parameters, actual.parameters) &&
        isSameType(expected.result, actual.result)
      );
    case 'instance':
    case 'other':
      return false;
  }
}

function areSameFields(expected: readonly NamedType[], actual: readonly NamedType[]): boolean {
  return (
    expected.length === actual.length &&
    expected.every((item, index) => item.name === actual[index]?.name && isSameType(item.type, actual[index]?.type))
  );
}

function areSameTypes(expected: readonly ComponentType[], actual: readonly ComponentType[]): boolean {
  return expected.length === actual.length && expected.every((item, index) => isSameType(item, actual[index]));
}

const OTHER: ComponentType = { kind: 'other' };
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

  type(reader: ByteReader): ComponentType {
    const type = this.types[reader.u32()];
    if (!type) throw reader.malformed('type index out of range');
    return type;
  }
}

function readImport(reader: ByteReader, scope: Scope): ComponentImport {
  const name = externName(reader);
  const { sort: kind, type } = readExtern(reader, scope);
  return { name, sort: kind === 'instance' || kind === 'type' ? kind : 'other', type };
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
  const found = target === 0x00 && instance?.kind === 'instance' ? instance.exports.get(name) : undefined;
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
  if (isPrimitive(code)) return { kind: 'primitive', code };
  switch (code) {
    case 0x72:
      return { kind: 'record', fields: namedTypes(reader, scope) };
    case 0x71:
      reader.vector(() => {
        text(reader);
        optionalType(reader, scope);
        reader.byte();
      });
      return OTHER;
    case 0x70:
      return { kind: 'list', of: valueType(reader, scope) };
    case 0x6f:
      return { kind: 'tuple', of: valueTypes(reader, scope) };
    case 0x6e:
    case 0x6d:
      reader.vector(() => {
        text(reader);
      });
      return OTHER;
    case 0x6b:
      return { kind: 'option', of: valueType(reader, scope) };
    case 0x6a:
      return { kind: 'result', ok: optionalType(reader, scope), error: optionalType(reader, scope) };
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
      return {
        kind: 'func',
        async: code === 0x43,
        parameters: namedTypes(reader, scope),
        result: resultType(reader, scope),
      };
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
  return isComponentType ? OTHER : { kind: 'instance', exports: scope.exports };
}

function valueType(reader: ByteReader, scope: Scope): ComponentType {
  // A non-negative number is a type index; a negative one, of one byte, is a primitive.
  const code = reader.bytes[reader.at] ?? 0;
  if (!isPrimitive(code)) {
    const index = reader.s33();
    const type = index < 0 ? undefined : scope.types[index];
    if (!type) throw reader.malformed('type index out of range');
    return type;
  }
  reader.byte();
  return { kind: 'primitive', code };
}

function optionalType(reader: ByteReader, scope: Scope): ComponentType | undefined {
  return reader.byte() === 0x01 ? valueType(reader, scope) : undefined;
}

function resultType(reader: ByteReader, scope: Scope): ComponentType | undefined {
  if (reader.byte() === 0x00) return valueType(reader, scope);
  // An empty list of named results, from an earlier encoding, means no result.
  if (reader.byte() !== 0x00) throw reader.malformed('functions with named results are not supported');
  return undefined;
}

function namedTypes(reader: ByteReader, scope: Scope): NamedType[] {
  const items: NamedType[] = [];
  reader.vector(() => {
    items.push({ name: text(reader), type: valueType(reader, scope) });
  });
  return items;
}

function valueTypes(reader: ByteReader, scope: Scope): ComponentType[] {
  const items: ComponentType[] = [];
  reader.vector(() => {
    items.push(valueType(reader, scope));
  });
  return items;
}

function text(reader: ByteReader): string {
  return Buffer.from(reader.nameBytes()).toString('latin1');
}

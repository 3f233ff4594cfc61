import { externName, externType, type Sort, sort, walkComponent } from './component.ts';
import { ByteReader, checkSize, InvalidComponentError, isScriptWord, quoted, shown } from './reader.ts';

/**
 * A type of a component, resolved: what it is built of stands in it. Types that actions' interfaces do not use
 * (variants, flags, resources, streams ...) are all `other`.
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

/** Something a component imports. */
export interface ComponentImport {
  readonly name: string;
  readonly sort: 'instance' | 'type' | 'other';
  readonly type: ComponentType;
}

/**
 * What a component imports, with resolved types. Of a component that was validated; what it cannot read throws
 * `ComponentRefusal` all the same.
 */
export function importsOf(component: Uint8Array): ComponentImport[] {
  const reader = new ByteReader(component, 8);
  const scope = new Scope(undefined);
  const imports: ComponentImport[] = [];
  while (!reader.done) {
    const id = reader.byte();
    const section = reader.part(reader.u32());
    if (id === 5) section.vector(() => passInstance(section, scope));
    else if (id === 6) section.vector(() => readAlias(section, scope));
    else if (id === 7) section.vector(() => scope.types.push(readType(section, scope)));
    else if (id === 10) section.vector(() => imports.push(readImport(section, scope)));
    else if (id === 11) section.vector(() => passExport(section, scope));
  }
  return imports;
}

/** Whether two types are the same; goes no deeper than `wanted` does. */
export function sameType(wanted: ComponentType | undefined, given: ComponentType | undefined): boolean {
  if (wanted === undefined || given === undefined) return wanted === given;
  switch (wanted.kind) {
    case 'primitive':
      return given.kind === 'primitive' && given.code === wanted.code;
    case 'record':
      return given.kind === 'record' && sameNamed(wanted.fields, given.fields);
    case 'tuple':
      return given.kind === 'tuple' && sameList(wanted.of, given.of);
    case 'list':
    case 'option':
      return given.kind === wanted.kind && sameType(wanted.of, given.of);
    case 'result':
      return given.kind === 'result' && sameType(wanted.ok, given.ok) && sameType(wanted.error, given.error);
    case 'func':
      return (
        given.kind === 'func' &&
        given.async === wanted.async &&
        sameNamed(wanted.parameters, given.parameters) &&
        sameType(wanted.result, given.result)
      );
    case 'instance':
    case 'other':
      return false;
  }
}

function sameNamed(wanted: readonly NamedType[], given: readonly NamedType[]): boolean {
  return (
    wanted.length === given.length &&
    wanted.every((item, index) => item.name === given[index]?.name && sameType(item.type, given[index]?.type))
  );
}

function sameList(wanted: readonly ComponentType[], given: readonly ComponentType[]): boolean {
  return wanted.length === given.length && wanted.every((item, index) => sameType(item, given[index]));
}

const other: ComponentType = { kind: 'other' };
const deepest = 16;

/** What is numbered inside of a component, a component type or an instance type. */
class Scope {
  readonly types: ComponentType[] = [];
  readonly instances: ComponentType[] = [];
  readonly exports = new Map<string, ComponentType>();
  readonly outer: Scope | undefined;
  readonly depth: number;

  constructor(outer: Scope | undefined) {
    this.outer = outer;
    this.depth = outer ? outer.depth + 1 : 0;
    if (this.depth > deepest) {
      throw new InvalidComponentError(
        'its types are nested too deeply for an action; build it with a component toolchain',
      );
    }
  }

  type(reader: ByteReader): ComponentType {
    const type = this.types[reader.u32()];
    if (!type) throw reader.malformed('names a type that there is not');
    return type;
  }
}

function readImport(reader: ByteReader, scope: Scope): ComponentImport {
  const name = externName(reader);
  const { sort: kind, type } = readExtern(reader, scope);
  return { name, sort: kind === 'instance' || kind === 'type' ? kind : 'other', type };
}

/** Reads of what type an import or export is, and gives it its number. */
function readExtern(reader: ByteReader, scope: Scope): { readonly sort: Sort; readonly type: ComponentType } {
  const extern = externType(reader);
  const type = extern.type === undefined || extern.sort === 'core' ? other : (scope.types[extern.type] ?? other);
  number(extern.sort, type, scope);
  return { sort: extern.sort, type };
}

function number(kind: Sort, type: ComponentType, scope: Scope): void {
  if (kind === 'type') scope.types.push(type);
  else if (kind === 'instance') scope.instances.push(type);
}

function readAlias(reader: ByteReader, scope: Scope): void {
  const kind = sort(reader);
  const target = reader.byte();
  if (target === 0x02) {
    let from: Scope | undefined = scope;
    for (let count = reader.u32(); count > 0 && from; count -= 1) from = from.outer;
    number(kind, from?.types[reader.u32()] ?? other, scope);
    return;
  }
  const instance = scope.instances[reader.u32()];
  const name = text(reader);
  const found = target === 0x00 && instance?.kind === 'instance' ? instance.exports.get(name) : undefined;
  number(kind, found ?? other, scope);
}

/** Instances that a component makes itself have numbers too; nothing that it imports can be made of them. */
function passInstance(reader: ByteReader, scope: Scope): void {
  const inline = reader.byte() === 0x01;
  if (!inline) reader.u32();
  reader.vector(() => {
    if (inline) externName(reader);
    else reader.nameBytes();
    sort(reader);
    reader.u32();
  });
  scope.instances.push(other);
}

/** An export gives what it exports another number. */
function passExport(reader: ByteReader, scope: Scope): void {
  externName(reader);
  const kind = sort(reader);
  const index = reader.u32();
  if (reader.byte() === 0x01) externType(reader);
  const space = kind === 'type' ? scope.types : scope.instances;
  number(kind, space[index] ?? other, scope);
}

/** The codes of bool, the integers, floats, char, string and error contexts. */
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
      return other;
    case 0x70:
      return { kind: 'list', of: valueType(reader, scope) };
    case 0x6f:
      return { kind: 'tuple', of: valueTypes(reader, scope) };
    case 0x6e:
    case 0x6d:
      reader.vector(() => {
        text(reader);
      });
      return other;
    case 0x6b:
      return { kind: 'option', of: valueType(reader, scope) };
    case 0x6a:
      return { kind: 'result', ok: optionalType(reader, scope), error: optionalType(reader, scope) };
    case 0x69:
    case 0x68:
      reader.u32();
      return other;
    case 0x66:
    case 0x65:
      optionalType(reader, scope);
      return other;
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
      return other;
    default:
      throw reader.malformed(`has a type of the unknown kind ${code}, which actions cannot use`);
  }
}

/** An instance type, or a component type, which is one that imports as well. */
function readInstanceType(reader: ByteReader, outer: Scope, component: boolean): ComponentType {
  const scope = new Scope(outer);
  reader.vector(() => {
    const form = reader.byte();
    if (form === 0x01) scope.types.push(readType(reader, scope));
    else if (form === 0x02) readAlias(reader, scope);
    else if (form === 0x03 && component) readImport(reader, scope);
    else if (form === 0x04) {
      const name = externName(reader);
      scope.exports.set(name, readExtern(reader, scope).type);
    } else throw reader.malformed(`declares something of the unknown kind ${form} in a type`);
  });
  return component ? other : { kind: 'instance', exports: scope.exports };
}

function valueType(reader: ByteReader, scope: Scope): ComponentType {
  // A number counts types; a negative one, which takes one byte, is a primitive.
  const code = reader.bytes[reader.at] ?? 0;
  if (!isPrimitive(code)) {
    const index = reader.s33();
    const type = index < 0 ? undefined : scope.types[index];
    if (!type) throw reader.malformed('names a type that there is not');
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
  // No result was once a list of named ones; it has to be empty.
  if (reader.byte() !== 0x00) throw reader.malformed('has a function with named results, which actions cannot use');
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

/** What the text that the component tools print of a component's world says of its outermost level. */
export interface PrintedWorld {
  /** What it imports by name, in order: `wasi:io/poll@0.2.12`. */
  readonly imports: readonly string[];
  /** What it exports, by name; the text after the colon for functions and inline interfaces. */
  readonly exports: ReadonlyMap<string, string>;
  /** Where its types come from: its name for each to `interface.{name there}`. */
  readonly uses: ReadonlyMap<string, string>;
  /** The world's own records, by name: each member as `name: type`, in order. */
  readonly records: ReadonlyMap<string, readonly string[]>;
}

/**
 * Reads the printed text of `world root`. The printer writes one statement a line and indents by two blanks a level;
 * names in it are validated, and what an author wrote (documentation) stands behind `//` only.
 */
export function readPrintedWorld(text: string): PrintedWorld {
  const imports: string[] = [];
  const exports = new Map<string, string>();
  const uses = new Map<string, string>();
  const records = new Map<string, string[]>();
  let inside = false;
  let record: string[] | undefined;
  for (const line of text.split('\n')) {
    if (line.startsWith('world root {')) inside = true;
    else if (line.startsWith('}')) inside = false;
    const begun = inside ? /^ {2}record (\S+) \{/.exec(line)?.[1] : undefined;
    if (begun !== undefined) {
      record = [];
      records.set(bare(begun), record);
    } else if (line.startsWith('  }')) record = undefined;
    const member = /^ {4}([^/\s].*),$/.exec(line)?.[1];
    if (record && member !== undefined) record.push(bare(member));
    const statement = inside ? /^ {2}(import|export|use) (.*)$/.exec(line) : null;
    if (!statement) continue;
    const [, verb, rest = ''] = statement;
    if (verb === 'use') readUse(rest, uses);
    else if (verb === 'export') {
      const [, name = rest, what = ''] = /^(%?[A-Za-z0-9-]+): (.*)$/.exec(rest) ?? [];
      exports.set(bare(name), what.replace(/;$/, ''));
    } else imports.push(bare(rest));
  }
  return { imports, exports, uses, records };
}

function readUse(rest: string, uses: Map<string, string>): void {
  const [, from = '', names = ''] = /^(\S+)\.\{(.*)\};$/.exec(rest) ?? [];
  for (const item of names.split(', ')) {
    const [name = '', local = name] = item.split(' as ');
    uses.set(bare(local), `${from}.{${bare(name)}}`);
  }
}

/** A name without its end and without the mark of names that are keywords. */
function bare(name: string): string {
  return name.replace(/;$/, '').replace(/^%/, '');
}

/** The component tools' functions that judging takes; they throw for what is invalid. */
export interface ComponentTools {
  /** Validates a component and prints its world. */
  componentWit(component: Uint8Array): string;
  /** Describes a world inside a core module, which it makes up when there is none. */
  componentEmbed(options: { witSource: string; world: string; dummy: boolean }): Uint8Array;
  /** Makes a component of such a module. */
  componentNew(module: Uint8Array, adapters: undefined): Uint8Array;
}

/** What a component has to do with its surroundings. */
interface Surface {
  readonly imports: readonly ComponentImport[];
  readonly world: PrintedWorld;
}

/** Stubs stand behind all of these: nothing of the machine is behind them but clocks and random numbers. */
const wasi = /^wasi:(?:cli|clocks|filesystem|io|random|sockets|http)\/[a-z0-9-]{1,64}@0\.2\.[0-9]{1,3}$/;

/**
 * Compares what a component imports and exports with a world `evaluator-action` (`wit`), structurally: fewer imports,
 * fewer functions of an interface and further exports are fine, any other difference is not (decisions 4.9). The world is
 * taken through the same tools: a component that uses all of it is the measure, so both sides are read alike.
 * Throws `ComponentRefusal`.
 */
export function checkInterface(component: Uint8Array, tools: ComponentTools, wit: string): void {
  const given = surfaceOf(component, tools);
  const module = tools.componentEmbed({ witSource: wit, world: 'evaluator-action', dummy: true });
  const wanted = surfaceOf(tools.componentNew(module, undefined), tools);
  const interfaces = new Map(wanted.imports.map(({ name, type }) => [name, type]));
  for (const item of given.imports) checkImport(item, interfaces);
  checkPrinted(given);
  checkEvaluate(given.world, wanted.world, wit);
  checkExports(given.world);
}

function surfaceOf(component: Uint8Array, tools: ComponentTools): Surface {
  let text: string;
  try {
    text = tools.componentWit(component);
  } catch (error) {
    // Causes come below what they caused.
    const lines = (error instanceof Error ? error.message : String(error)).trim().split('\n');
    const reason = shown(lines.at(-1) ?? '', 120);
    throw new InvalidComponentError(`not a valid component: ${reason}; build the action anew`, { cause: error });
  }
  return { imports: importsOf(component), world: readPrintedWorld(text) };
}

function checkImport(item: ComponentImport, interfaces: ReadonlyMap<string, ComponentType>): void {
  // Types of the world's own, which are equal to types of what it imports.
  if (item.sort === 'type') return;
  if (item.sort === 'instance' && wasi.test(item.name)) {
    checkStubbed(item);
    return;
  }
  const wanted = interfaces.get(item.name);
  if (item.sort !== 'instance' || wanted?.kind !== 'instance') throw foreign(item.name);
  if (item.type.kind !== 'instance') throw mismatch(item.name);
  for (const [name, type] of item.type.exports) {
    const ours = wanted.exports.get(name);
    if (ours === undefined) throw foreign(`${item.name}.${name}`);
    if (!sameType(ours, type)) throw mismatch(`${item.name}.${name}`);
  }
}

/** Stubs take any types, but glue declares their functions. */
function checkStubbed({ name, type }: ComponentImport): void {
  if (type.kind !== 'instance') throw mismatch(name);
  for (const [member, { kind }] of type.exports) {
    if (kind === 'func' && isScriptWord(member)) throw mismatch(`${name}.${member}`);
  }
}

function foreign(name: string): InvalidComponentError {
  return new InvalidComponentError(
    `imports ${quoted(name)}, which actions cannot use; build it for the world evaluator-action`,
  );
}

function mismatch(name: string): InvalidComponentError {
  return new InvalidComponentError(
    `imports ${quoted(name)} with a type of its own; build it with the WIT file that comes with this version`,
  );
}

/** The tools, which glue is made by, must have seen the imports that were compared here. */
function checkPrinted({ imports, world }: Surface): void {
  const compared = new Set(imports.filter(({ sort }) => sort === 'instance').map(({ name }) => name));
  const different = world.imports.find((name) => !compared.has(name));
  if (different !== undefined) throw foreign(different);
}

/** Records are what their members are: some toolchains use that of `types`, others write it out in the world. */
function checkEvaluate(given: PrintedWorld, wanted: PrintedWorld, wit: string): void {
  const type = given.exports.get('evaluate');
  if (type === undefined) {
    throw new InvalidComponentError('exports no function "evaluate"; export it, outside of any interface');
  }
  const context = /^func\(ctx: %?([a-z0-9-]+)\)$/.exec(type)?.[1];
  const from = context === undefined ? undefined : given.uses.get(context);
  const written = context === undefined ? undefined : given.records.get(context)?.join();
  const same = from === undefined ? written === contextMembers(wit) : from === wanted.uses.get('evaluation-context');
  if (!same) {
    const signature = shown(type, 60);
    throw new InvalidComponentError(
      `exports "evaluate" as ${signature}; actions need func(ctx: evaluation-context) of service:evaluator/types`,
    );
  }
}

/** Further exports are not called, but glue declares them. */
function checkExports({ exports }: PrintedWorld): void {
  for (const name of exports.keys()) {
    if (isScriptWord(name)) throw new InvalidComponentError(`exports ${quoted(name)}, a word of JavaScript; rename it`);
  }
}

/** The members of the record `evaluation-context` as they are printed. */
function contextMembers(wit: string): string {
  const [, members = ''] = /record evaluation-context \{([^}]*)\}/.exec(wit.replace(/\/\/.*/g, '')) ?? [];
  return members
    .split(/,(?![^<]*>)/)
    .map((member) => member.trim())
    .filter((member) => member !== '')
    .join();
}

/** What judging a component takes from outside. */
export interface Measure {
  readonly tools: ComponentTools;
  /** The text of the WIT package `service:evaluator`. */
  readonly wit: string;
}

/**
 * Judges a component before glue is made of it (spec "Evaluator processing rules", decisions 4.9): its size, every name
 * and number in it, its validity, its imports and exports. Throws `ComponentRefusal`, whose message names what is wrong
 * and the remedy. Function bodies are left to WebAssembly.
 */
export function validateComponent(bytes: Uint8Array, measure: Measure): void {
  checkSize(bytes);
  walkComponent(bytes);
  checkInterface(bytes, measure.tools, measure.wit);
}

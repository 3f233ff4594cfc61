import { type CoreNames, isComponent, isCoreModule, walkCoreModule } from './core-module.ts';
import {
  ByteReader,
  COMPONENT_LIMITS,
  ComponentCounts,
  checkLimit,
  InvalidComponentError,
  isReservedName,
  quote,
} from './reader.ts';

const MAX_NAME_BYTES = 512;

/**
 * Punctuation allowed in names. jco pastes names unescaped into JavaScript, so the list has nothing that ends or
 * interpolates a string (quotes, backslash, backquote, braces), calls a function (parentheses), ends a comment (`*`) or a
 * line. Toolchains use all of it: the Canonical ABI (`cm32p2|wasi:io/poll@0.2|[resource-drop]pollable`, `[async-lift]`),
 * AssemblyScript (`Point#get:x`, `~start`), Swift and Rust (`$s4main`, `a.b`), versions (`0.2.0-rc+1`).
 */
const PUNCTUATION = '_.$:/@#[]|-+~<>=,!';

/** All characters allowed in names. */
export const allowedCharacters = `ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789${PUNCTUATION}`;

const isAllowedByte = new Uint8Array(256);
for (const character of allowedCharacters) isAllowedByte[character.charCodeAt(0)] = 1;

/** Returns a name as text. Throws `InvalidComponentError` unless it is safe in glue. */
export function checkedName(bytes: Uint8Array): string {
  if (bytes.length > MAX_NAME_BYTES) {
    throw new InvalidComponentError(
      `name of ${bytes.length} bytes is too long; the maximum is ${MAX_NAME_BYTES} bytes`,
    );
  }
  for (const byte of bytes) {
    if (isAllowedByte[byte] === 0) throw invalidName(bytes, 'contains a character that is not allowed');
  }
  const name = String.fromCharCode(...bytes);
  // In an object literal, it sets the prototype instead of a member.
  if (name === '__proto__') throw invalidName(bytes, 'is reserved in JavaScript');
  // Each begins or ends a comment somewhere in a script.
  if (name.includes('<!--') || name.includes('-->') || name.includes('//')) {
    throw invalidName(bytes, 'contains a comment delimiter of JavaScript');
  }
  return name;
}

/** Like `checkedName`, for exports of core modules: glue names variables after the part behind a slash. */
export function checkedExport(bytes: Uint8Array): string {
  const name = checkedName(bytes);
  if (name.includes('/') && isReservedName(name)) throw invalidName(bytes, 'is reserved in JavaScript');
  return name;
}

function invalidName(bytes: Uint8Array, problem: string): InvalidComponentError {
  const name = String.fromCharCode(...bytes.subarray(0, 64));
  return new InvalidComponentError(`name ${quote(name)} ${problem}; rename it and rebuild the action`);
}

/**
 * Walks a whole component: checks every name that can reach generated glue against the allow-list, and counts everything
 * that is limited. Returns the counts. Throws `InvalidComponentError` for a core module, for malformed, disallowed or
 * excessive contents, and for every construct it does not know, since glue must not be generated from unknown
 * constructs. Type sections are skipped: the component tools ensure that labels in them are kebab-case.
 */
export function walkComponent(bytes: Uint8Array): Readonly<ComponentCounts> {
  if (bytes.length === 0) throw new InvalidComponentError('not a component: the file is empty; rebuild the action');
  if (isCoreModule(bytes)) {
    throw new InvalidComponentError('a core module, not a component: componentize it for the world evaluator-action');
  }
  const counts = new ComponentCounts();
  counts.add('coreInstances', walkSections(new ByteReader(bytes), counts, undefined));
  return counts;
}

/** A component: the number of core instances that it creates, and that of each component in its index space. */
interface Scope {
  cost: number;
  readonly costs: number[];
  readonly outer: Scope | undefined;
}

/** Returns the number of core instances of the component, including those of the components that it instantiates. */
function walkSections(reader: ByteReader, counts: ComponentCounts, outer: Scope | undefined): number {
  const scope: Scope = { cost: 0, costs: [], outer };
  if (!isComponent(reader.rest())) {
    throw new InvalidComponentError(
      'not a component: invalid header; build TypeScript and JavaScript with sluice action build',
    );
  }
  reader.part(8);
  while (!reader.isDone) {
    const id = reader.byte();
    const section = reader.part(reader.u32());
    // Custom sections, component types and canonical functions have no unvalidated names that reach glue.
    if (id === 0 || id === 7 || id === 8) continue;
    walkSection(id, section, counts, scope);
    section.finish();
  }
  return scope.cost;
}

function walkSection(id: number, section: ByteReader, counts: ComponentCounts, scope: Scope): void {
  switch (id) {
    case 1:
      return walkModule(section, counts);
    case 2:
      return section.vector(() => walkCoreInstance(section, scope));
    case 4:
      counts.add('components');
      scope.costs.push(walkSections(section, counts, scope));
      return;
    case 5:
      return section.vector(() => walkInstance(section, scope));
    case 6:
      return section.vector(() => walkAlias(section, scope));
    case 10:
      return section.vector(() => walkImport(section));
    case 11:
      return section.vector(() => walkExport(section, scope));
    default:
      throw section.malformed(`unsupported section ${id}`);
  }
}

function walkImport(section: ByteReader): void {
  const name = externName(section);
  const { sort: kind } = externType(section);
  if (kind !== 'core' && kind !== 'component') return;
  throw new InvalidComponentError(
    `import ${quote(name)} is a module or component, which is not supported; link it into the component`,
  );
}

function walkExport(section: ByteReader, scope: Scope): void {
  externName(section);
  const kind = sort(section);
  const index = section.u32();
  if (kind === 'component') scope.costs.push(costOf(section, scope, index));
  const hasType = section.byte();
  if (hasType > 1) throw section.malformed('invalid option flag');
  if (hasType === 1) externType(section);
}

function walkModule(section: ByteReader, counts: ComponentCounts): void {
  counts.add('coreModules');
  for (const { what, items } of walkCoreModule(section, NAME_CHECKS)) {
    for (const { minimum } of items) {
      if (what === 'memory') counts.add('memoryPages', minimum);
      else {
        counts.add('tables');
        checkLimit(minimum, COMPONENT_LIMITS.tableElements, 'elements in a table');
        counts.add('tableElements', minimum);
      }
    }
  }
}

const NAME_CHECKS: CoreNames = { imported: checkedName, exported: checkedExport };

function walkCoreInstance(section: ByteReader, scope: Scope): void {
  scope.cost += 1;
  const form = section.byte();
  if (form === 0x00) {
    section.u32();
    section.vector(() => {
      checkedName(section.nameBytes());
      if (section.byte() !== 0x12) throw section.malformed('core module argument is not an instance');
      section.u32();
    });
  } else if (form === 0x01) {
    section.vector(() => {
      checkedName(section.nameBytes());
      coreSort(section);
      section.u32();
    });
  } else throw section.malformed(`unknown core instance form ${form}`);
}

function walkInstance(section: ByteReader, scope: Scope): void {
  const form = section.byte();
  if (form > 0x01) throw section.malformed(`unknown instance form ${form}`);
  if (form === 0x00) scope.cost += costOf(section, scope, section.u32());
  section.vector(() => {
    if (form === 0x00) checkedName(section.nameBytes());
    else externName(section);
    sort(section);
    section.u32();
  });
}

function walkAlias(section: ByteReader, scope: Scope): void {
  const kind = sort(section);
  const target = section.byte();
  if (target === 0x00 || target === 0x01) {
    section.u32();
    checkedName(section.nameBytes());
    if (kind === 'component') throw section.malformed('alias of a component in an instance is not supported');
  } else if (target === 0x02) {
    let from: Scope | undefined = scope;
    for (let count = section.u32(); count > 0 && from; count -= 1) from = from.outer;
    const index = section.u32();
    if (kind === 'component') scope.costs.push(costOf(section, from, index));
  } else throw section.malformed(`unknown alias target ${target}`);
}

function costOf(section: ByteReader, scope: Scope | undefined, index: number): number {
  const cost = scope?.costs[index];
  if (cost === undefined) throw section.malformed('component index out of range');
  return cost;
}

/** Reads the name of an import or export, after a form byte. Form 2, with options, is for newer worlds only. */
export function externName(section: ByteReader): string {
  const form = section.byte();
  if (form > 1) throw section.malformed(`name with options (form ${form}) is not supported`);
  return checkedName(section.nameBytes());
}

/** Reads a sort; `core` for all core sorts. */
export function sort(section: ByteReader): Sort {
  const byte = section.byte();
  const kind = SORTS[byte];
  if (kind === undefined) throw section.malformed(`unknown sort ${byte}`);
  if (kind === 'core') coreSort(section);
  return kind;
}

/** Sort of an item in a component. Values are not supported. */
export type Sort = 'core' | 'func' | 'type' | 'component' | 'instance';

const SORTS: readonly (Sort | undefined)[] = ['core', 'func', undefined, 'type', 'component', 'instance'];

function coreSort(section: ByteReader): void {
  const byte = section.byte();
  // Functions, tables, memories, globals and tags; types, modules and instances.
  if (byte > 0x04 && (byte < 0x10 || byte > 0x12)) throw section.malformed(`unknown core sort ${byte}`);
}

/** Reads the type of an import or export: its sort and type index (for types: the index of the equal type). */
export function externType(section: ByteReader): { readonly sort: Sort; readonly type: number | undefined } {
  const kind = sort(section);
  if (kind !== 'type') return { sort: kind, type: section.u32() };
  const bound = section.byte();
  if (bound === 0x00) return { sort: kind, type: section.u32() };
  if (bound === 0x01) return { sort: kind, type: undefined };
  throw section.malformed(`unknown type bound ${bound}`);
}

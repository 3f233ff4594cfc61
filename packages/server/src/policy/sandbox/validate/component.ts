import { type CoreNames, isComponent, isCoreModule, walkCoreModule } from './core-module.ts';
import { ByteReader, InvalidComponentError, isScriptWord, quoted, Tally } from './reader.ts';

const longestName = 512;

/**
 * What names may consist of besides letters and digits. The glue that jco makes pastes names into JavaScript as they
 * are, so nothing is here that ends or interpolates a string (quotes, backslash, backquote, braces), calls anything
 * (parentheses), ends a comment (`*`) or a line. What is here, toolchains use: the Canonical ABI
 * (`cm32p2|wasi:io/poll@0.2|[resource-drop]pollable`, `[async-lift]`), AssemblyScript (`Point#get:x`, `~start`),
 * Swift and Rust (`$s4main`, `a.b`), versions (`0.2.0-rc+1`).
 */
const punctuation = '_.$:/@#[]|-+~<>=,!';

/** All characters that names may have. */
export const allowedCharacters = `ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789${punctuation}`;

const allowed = new Uint8Array(256);
for (const character of allowedCharacters) allowed[character.charCodeAt(0)] = 1;

/** Throws `ComponentRefusal` unless a name may stand in glue; gives it as text. */
export function checkedName(bytes: Uint8Array): string {
  if (bytes.length > longestName) {
    throw new InvalidComponentError(`a name in it has ${bytes.length} bytes; actions may use names of ${longestName}`);
  }
  for (const byte of bytes) {
    if (allowed[byte] === 0) throw refusedName(bytes, `has a character that names in actions may not have`);
  }
  const name = String.fromCharCode(...bytes);
  // In an object literal it would set the prototype instead of a member.
  if (name === '__proto__') throw refusedName(bytes, 'has a meaning of its own in JavaScript');
  // Both begin or end a comment in some place of a script.
  if (name.includes('<!--') || name.includes('-->') || name.includes('//')) {
    throw refusedName(bytes, 'looks like a comment of JavaScript');
  }
  return name;
}

/** The same for what a core module exports: glue may name variables after what comes behind a slash in it. */
export function checkedExport(bytes: Uint8Array): string {
  const name = checkedName(bytes);
  if (name.includes('/') && isScriptWord(name)) throw refusedName(bytes, 'has a meaning of its own in JavaScript');
  return name;
}

function refusedName(bytes: Uint8Array, why: string): InvalidComponentError {
  const name = String.fromCharCode(...bytes.subarray(0, 64));
  return new InvalidComponentError(`the name ${quoted(name)} in it ${why}; rename it and build the action anew`);
}

/**
 * Walks a whole component without knowing what it means: every name that can reach generated glue is checked against
 * the allow-list, and everything of which there may be too much is counted. Throws `ComponentRefusal` for a core module,
 * for what is malformed, refused or too much, and for every construct it does not know: what it cannot read, glue must
 * not be made of. Inside of type sections it does not look; labels there are kebab-case by validation. Returns what was
 * counted.
 */
export function walkComponent(bytes: Uint8Array): Readonly<Tally> {
  if (bytes.length === 0) throw new InvalidComponentError('not a component: the file is empty; build the action anew');
  if (isCoreModule(bytes)) {
    throw new InvalidComponentError('a core module, not a component: componentize it for the world evaluator-action');
  }
  const tally = new Tally();
  tally.allCoreInstances(walkSections(new ByteReader(bytes), tally, undefined));
  return tally;
}

/** The components that are numbered inside of one: how many core instances each of them makes. */
interface Scope {
  readonly costs: number[];
  readonly outer: Scope | undefined;
}

/** Returns how many core instances the component makes, with those of the components that it instantiates. */
function walkSections(reader: ByteReader, tally: Tally, outer: Scope | undefined): number {
  const scope: Scope = { costs: [], outer };
  let cost = 0;
  if (!isComponent(reader.rest())) {
    throw new InvalidComponentError(
      'not a component: it does not begin as one does; of TypeScript or JavaScript, sluice action build makes one',
    );
  }
  reader.part(8);
  while (!reader.done) {
    const id = reader.byte();
    const section = reader.part(reader.u32());
    // Custom sections, component types and canonical functions carry no names that reach glue unvalidated.
    if (id === 0 || id === 7 || id === 8) continue;
    cost += walkSection(id, section, tally, scope);
    section.finish();
  }
  return cost;
}

/** Returns how many core instances are made in the section. */
function walkSection(id: number, section: ByteReader, tally: Tally, scope: Scope): number {
  let cost = 0;
  switch (id) {
    case 1:
      walkModule(section, tally);
      break;
    case 2:
      section.vector(() => {
        cost += 1;
        coreInstance(section);
      });
      break;
    case 4:
      tally.component();
      scope.costs.push(walkSections(section, tally, scope));
      break;
    case 5:
      section.vector(() => {
        cost += instance(section, scope);
      });
      break;
    case 6:
      section.vector(() => alias(section, scope));
      break;
    case 10:
      section.vector(() => importOf(section));
      break;
    case 11:
      section.vector(() => exportOf(section, scope));
      break;
    default:
      throw section.malformed(`has a section of kind ${id}, which actions cannot use`);
  }
  return cost;
}

function importOf(section: ByteReader): void {
  const name = externName(section);
  const { sort: kind } = externType(section);
  if (kind !== 'core' && kind !== 'component') return;
  throw new InvalidComponentError(`imports ${quoted(name)}, a module or component, which actions cannot use; link it`);
}

function exportOf(section: ByteReader, scope: Scope): void {
  externName(section);
  const kind = sort(section);
  const index = section.u32();
  if (kind === 'component') scope.costs.push(costOf(section, scope, index));
  if (optional(section)) externType(section);
}

function walkModule(section: ByteReader, tally: Tally): void {
  tally.coreModule();
  const { memories, tables } = walkCoreModule(section, checkedNames);
  for (const memory of memories?.items ?? []) tally.memory(memory.minimum);
  for (const table of tables?.items ?? []) tally.table(table.minimum);
}

const checkedNames: CoreNames = { imported: checkedName, exported: checkedExport };

function coreInstance(section: ByteReader): void {
  const form = section.byte();
  if (form === 0x00) {
    section.u32();
    section.vector(() => {
      checkedName(section.nameBytes());
      if (section.byte() !== 0x12) throw section.malformed('gives a core module something that is no instance');
      section.u32();
    });
  } else if (form === 0x01) {
    section.vector(() => {
      checkedName(section.nameBytes());
      coreSort(section);
      section.u32();
    });
  } else throw section.malformed(`makes a core instance in the unknown way ${form}`);
}

/** Returns how many core instances it takes. */
function instance(section: ByteReader, scope: Scope): number {
  const form = section.byte();
  if (form > 0x01) throw section.malformed(`makes an instance in the unknown way ${form}`);
  const cost = form === 0x00 ? costOf(section, scope, section.u32()) : 0;
  section.vector(() => {
    if (form === 0x00) checkedName(section.nameBytes());
    else externName(section);
    sort(section);
    section.u32();
  });
  return cost;
}

function alias(section: ByteReader, scope: Scope): void {
  const kind = sort(section);
  const target = section.byte();
  if (target === 0x00 || target === 0x01) {
    section.u32();
    checkedName(section.nameBytes());
    if (kind === 'component') throw section.malformed('takes a component out of an instance, which actions cannot');
  } else if (target === 0x02) {
    let from: Scope | undefined = scope;
    for (let count = section.u32(); count > 0 && from; count -= 1) from = from.outer;
    const index = section.u32();
    if (kind === 'component') scope.costs.push(costOf(section, from, index));
  } else throw section.malformed(`has an alias of the unknown kind ${target}`);
}

function costOf(section: ByteReader, scope: Scope | undefined, index: number): number {
  const cost = scope?.costs[index];
  if (cost === undefined) throw section.malformed('names a component that there is not');
  return cost;
}

/** The name of an import or export. Encoders wrote 0 or 1 before it; 2 announces options, which only newer worlds need. */
export function externName(section: ByteReader): string {
  const form = section.byte();
  if (form > 1) throw section.malformed(`has a name with options (form ${form}), which actions cannot use`);
  return checkedName(section.nameBytes());
}

/** Passes over what kind of thing something is; gives the kind, of core things `core`. */
export function sort(section: ByteReader): Sort {
  const byte = section.byte();
  const kind = sorts[byte];
  if (kind === undefined) throw section.malformed(`names a thing of the unknown kind ${byte}`);
  if (kind === 'core') coreSort(section);
  return kind;
}

/** A kind of thing in a component. Values are refused. */
export type Sort = 'core' | 'func' | 'type' | 'component' | 'instance';

const sorts: readonly (Sort | undefined)[] = ['core', 'func', undefined, 'type', 'component', 'instance'];

function coreSort(section: ByteReader): void {
  const byte = section.byte();
  // Functions, tables, memories, globals and tags; types, modules and instances.
  if (byte > 0x04 && (byte < 0x10 || byte > 0x12)) throw section.malformed(`names a core thing of kind ${byte}`);
}

/** Of what type an import or export is: the kind, and the index of its type (of types: what they are equal to). */
export function externType(section: ByteReader): { readonly sort: Sort; readonly type: number | undefined } {
  const kind = sort(section);
  if (kind !== 'type') return { sort: kind, type: section.u32() };
  const bound = section.byte();
  if (bound === 0x00) return { sort: kind, type: section.u32() };
  if (bound === 0x01) return { sort: kind, type: undefined };
  throw section.malformed(`bounds a type in the unknown way ${bound}`);
}

function optional(section: ByteReader): boolean {
  const byte = section.byte();
  if (byte > 1) throw section.malformed('has an option that is neither there nor not');
  return byte === 1;
}

import { walkComponent } from './component.ts';
import { COMPONENT_LIMITS, InvalidComponentError, isReservedName, printable, quote } from './reader.ts';
import { type ComponentImport, type ComponentType, importsOf, isFunction, isSameType } from './types.ts';

/** Tools and reference of the validation. */
export interface ValidationContext {
  readonly tools: ComponentTools;
  /** Text of the WIT package `service:evaluator`. */
  readonly wit: string;
}

/**
 * Validates a component before glue is generated from it: its size, all names and counts in it, its validity, its imports and
 * exports. Throws `InvalidComponentError`. Function bodies are validated by the WebAssembly engine.
 */
export function validateComponent(bytes: Uint8Array, { tools, wit }: ValidationContext): void {
  const { fileBytes } = COMPONENT_LIMITS;
  if (bytes.length > fileBytes) {
    throw new InvalidComponentError(
      `component too large: ${bytes.length} bytes, maximum ${fileBytes}; strip debug information`,
    );
  }
  walkComponent(bytes);
  checkInterface(bytes, tools, wit);
}

/** Functions of the component tools; they throw for invalid input. */
export interface ComponentTools {
  /** Validates a component and prints its world. */
  componentWit(component: Uint8Array): string;
  /** Embeds a world in a core module; `dummy` generates the module. */
  componentEmbed(options: { witSource: string; world: string; dummy: boolean }): Uint8Array;
  /** Creates a component from such a module. */
  componentNew(module: Uint8Array, adapters: undefined): Uint8Array;
}

/** Imports and exports of a component. */
interface ComponentInterface {
  readonly imports: readonly ComponentImport[];
  readonly world: PrintedWorld;
}

/** Interfaces that are linked to stubs (`host/wasi-stubs.ts`). */
const STUBBED_INTERFACE = /^wasi:(?:cli|clocks|filesystem|io|random|sockets|http)\/[a-z0-9-]{1,64}@0\.2\.[0-9]{1,3}$/;

/**
 * Compares imports and exports structurally with the world `evaluator-action` in `wit`: missing imports, missing functions of an
 * interface and additional exports are allowed, any other difference is not. The reference is a dummy component of the world, so
 * both sides go through the same tools and the same parser. Throws `InvalidComponentError`.
 */
function checkInterface(component: Uint8Array, tools: ComponentTools, wit: string): void {
  const actual = interfaceOf(component, tools);
  const module = tools.componentEmbed({ witSource: wit, world: 'evaluator-action', dummy: true });
  const expected = interfaceOf(tools.componentNew(module, undefined), tools);
  const interfaces = new Map(expected.imports.map(({ name, type }) => [name, type]));
  for (const item of actual.imports) checkImport(item, interfaces);
  checkPrintedImports(actual);
  checkEvaluate(actual.world, expected.world, wit);
  checkExports(actual.world);
}

function interfaceOf(component: Uint8Array, tools: ComponentTools): ComponentInterface {
  let text: string;
  try {
    text = tools.componentWit(component);
  } catch (error) {
    // The last line is the innermost cause.
    const lines = (error instanceof Error ? error.message : String(error)).trim().split('\n');
    const reason = printable(lines.at(-1) ?? '', 120);
    throw new InvalidComponentError(`not a valid component: ${reason}; rebuild the action`, { cause: error });
  }
  return { imports: importsOf(component), world: parsePrintedWorld(text) };
}

function checkImport(item: ComponentImport, interfaces: ReadonlyMap<string, ComponentType>): void {
  // Type of the world itself, equal to a type of an imported interface.
  if (item.sort === 'type') return;
  if (item.sort === 'instance' && STUBBED_INTERFACE.test(item.name)) {
    checkStubbedImport(item);
    return;
  }
  const expected = interfaces.get(item.name);
  if (item.sort !== 'instance' || typeof expected !== 'object') throw unavailableImport(item.name);
  if (typeof item.type !== 'object') throw mismatchedImport(item.name);
  for (const [name, type] of item.type) {
    const expectedType = expected.get(name);
    if (expectedType === undefined) throw unavailableImport(`${item.name}.${name}`);
    if (!isSameType(expectedType, type)) throw mismatchedImport(`${item.name}.${name}`);
  }
}

/** Stubs accept any type, but glue declares functions with the names of their members. */
function checkStubbedImport({ name, type }: ComponentImport): void {
  if (typeof type !== 'object') throw mismatchedImport(name);
  for (const [member, memberType] of type) {
    if (isFunction(memberType) && isReservedName(member)) throw mismatchedImport(`${name}.${member}`);
  }
}

function unavailableImport(name: string): InvalidComponentError {
  return new InvalidComponentError(
    `import ${quote(name)} is not available to actions; build the component for the world evaluator-action`,
  );
}

function mismatchedImport(name: string): InvalidComponentError {
  return new InvalidComponentError(
    `import ${quote(name)} has a different type; build the component with the WIT file of this version`,
  );
}

/** Glue is generated by the tools, so they must have read the same imports. */
function checkPrintedImports({ imports, world }: ComponentInterface): void {
  const compared = new Set(imports.filter(({ sort }) => sort === 'instance').map(({ name }) => name));
  const unchecked = world.imports.find((name) => !compared.has(name));
  if (unchecked !== undefined) throw unavailableImport(unchecked);
}

/** Records are compared by their members: some toolchains use the record of `types`, others define it in the world. */
function checkEvaluate(actual: PrintedWorld, expected: PrintedWorld, wit: string): void {
  const type = actual.exports.get('evaluate');
  if (type === undefined) {
    throw new InvalidComponentError('missing export "evaluate"; export the function outside of any interface');
  }
  const context = /^func\(ctx: %?([a-z0-9-]+)\)$/.exec(type)?.[1];
  const usedFrom = context === undefined ? undefined : actual.uses.get(context);
  const ownMembers = context === undefined ? undefined : actual.records.get(context)?.join();
  const isSame =
    usedFrom === undefined ? ownMembers === contextMembers(wit) : usedFrom === expected.uses.get('evaluation-context');
  if (!isSame) {
    const signature = printable(type, 60);
    throw new InvalidComponentError(
      `export "evaluate" has the type ${signature}; expected func(ctx: evaluation-context) of service:evaluator/types`,
    );
  }
}

/** Additional exports are not called, but glue declares them. */
function checkExports({ exports }: PrintedWorld): void {
  for (const name of exports.keys()) {
    if (isReservedName(name))
      throw new InvalidComponentError(`export ${quote(name)} is reserved in JavaScript; rename it`);
  }
}

/** Members of the record `evaluation-context`, in the printer's format. */
function contextMembers(wit: string): string {
  const [, members = ''] = /record evaluation-context \{([^}]*)\}/.exec(wit.replace(/\/\/.*/g, '')) ?? [];
  return members
    .split(/,(?![^<]*>)/)
    .map((member) => member.trim())
    .filter((member) => member !== '')
    .join();
}

/** World of a component, as printed by the component tools; outermost level only. */
interface PrintedWorld {
  /** Names of the imports in order, such as `wasi:io/poll@0.2.12`. */
  readonly imports: readonly string[];
  /** Exports by name, with the text after the colon for functions and inline interfaces. */
  readonly exports: ReadonlyMap<string, string>;
  /** Types that are used from interfaces: local name to `interface.{original name}`. */
  readonly uses: ReadonlyMap<string, string>;
  /** Records of the world itself by name, with their members as `name: type` in order. */
  readonly records: ReadonlyMap<string, readonly string[]>;
}

/**
 * Parses the printed text of `world root`. The printer writes one statement per line with two spaces of indentation per
 * level; names in it are validated, and free text of the author (documentation) only follows `//`.
 */
function parsePrintedWorld(text: string): PrintedWorld {
  const imports: string[] = [];
  const exports = new Map<string, string>();
  const uses = new Map<string, string>();
  const records = new Map<string, string[]>();
  let isInWorld = false;
  let record: string[] | undefined;
  for (const line of text.split('\n')) {
    if (line.startsWith('world root {')) isInWorld = true;
    else if (line.startsWith('}')) isInWorld = false;
    const recordName = isInWorld ? /^ {2}record (\S+) \{/.exec(line)?.[1] : undefined;
    if (recordName !== undefined) {
      record = [];
      records.set(bareName(recordName), record);
    } else if (line.startsWith('  }')) record = undefined;
    const member = /^ {4}([^/\s].*),$/.exec(line)?.[1];
    if (record && member !== undefined) record.push(bareName(member));
    const statement = isInWorld ? /^ {2}(import|export|use) (.*)$/.exec(line) : null;
    if (!statement) continue;
    const [, keyword, rest = ''] = statement;
    if (keyword === 'use') parseUse(rest, uses);
    else if (keyword === 'export') {
      const [, name = rest, type = ''] = /^(%?[A-Za-z0-9-]+): (.*)$/.exec(rest) ?? [];
      exports.set(bareName(name), type.replace(/;$/, ''));
    } else imports.push(bareName(rest));
  }
  return { imports, exports, uses, records };
}

function parseUse(rest: string, uses: Map<string, string>): void {
  const [, from = '', names = ''] = /^(\S+)\.\{(.*)\};$/.exec(rest) ?? [];
  for (const item of names.split(', ')) {
    const [name = '', local = name] = item.split(' as ');
    uses.set(bareName(local), `${from}.{${bareName(name)}}`);
  }
}

/** Name without the semicolon and without the `%` of names that are keywords. */
function bareName(name: string): string {
  return name.replace(/;$/, '').replace(/^%/, '');
}

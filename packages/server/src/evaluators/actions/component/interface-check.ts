import { type ComponentImport, type ComponentType, importsOf, sameType } from './component-types.ts';
import { type PrintedWorld, readPrintedWorld } from './printed-world.ts';
import { ComponentRefusal, quoted, shown } from './refusal.ts';
import { isScriptWord } from './script-words.ts';

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
    throw new ComponentRefusal(`not a valid component: ${reason}; build the action anew`, { cause: error });
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

function foreign(name: string): ComponentRefusal {
  return new ComponentRefusal(
    `imports ${quoted(name)}, which actions cannot use; build it for the world evaluator-action`,
  );
}

function mismatch(name: string): ComponentRefusal {
  return new ComponentRefusal(
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
    throw new ComponentRefusal('exports no function "evaluate"; export it, outside of any interface');
  }
  const context = /^func\(ctx: %?([a-z0-9-]+)\)$/.exec(type)?.[1];
  const from = context === undefined ? undefined : given.uses.get(context);
  const written = context === undefined ? undefined : given.records.get(context)?.join();
  const same = from === undefined ? written === contextMembers(wit) : from === wanted.uses.get('evaluation-context');
  if (!same) {
    const signature = shown(type, 60);
    throw new ComponentRefusal(
      `exports "evaluate" as ${signature}; actions need func(ctx: evaluation-context) of service:evaluator/types`,
    );
  }
}

/** Further exports are not called, but glue declares them. */
function checkExports({ exports }: PrintedWorld): void {
  for (const name of exports.keys()) {
    if (isScriptWord(name)) throw new ComponentRefusal(`exports ${quoted(name)}, a word of JavaScript; rename it`);
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

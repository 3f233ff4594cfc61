import { relative } from 'node:path';
import {
  type ClassElement,
  type FunctionLikeDeclaration,
  isBindingElement,
  isClassLikeDeclaration,
  isConstructorDeclaration,
  isFunctionLikeDeclaration,
  isInterfaceDeclaration,
  isObjectBindingPattern,
  isPrivateIdentifier,
  isPropertyAccessExpression,
  isTypeLiteralNode,
  isVariableDeclaration,
  ModifierFlags,
  type Node,
  type SourceFile,
  type TypeElement,
} from 'typescript/unstable/ast';
import { API, type Project, type Type } from 'typescript/unstable/sync';
import type { ExecutedFunction } from './executed-functions.ts';

/** A function or type, and its number of parameters or members. */
export interface Counted {
  /** `path:line name`. */
  readonly place: string;
  readonly count: number;
}

/** What a reader of a call meets. */
export interface CallPath {
  readonly functions: readonly Counted[];
  readonly types: readonly Counted[];
}

/** Limits on the path of a call. */
export const CALL_LIMITS = { parameters: 3, members: 12 } as const;

/** Returns the name of a place, which is the same when lines move. */
function nameAt(place: string): string {
  return place.replace(/:\d+ /, ' ');
}

/**
 * Returns what exceeds a limit without an exception, which is a count by name: nothing else may exceed it, and no exception may
 * grow, or stay higher than it has to be.
 */
export function excess(
  counted: readonly Counted[],
  limit: number,
  exceptions: Readonly<Record<string, number>>,
): string[] {
  const counts = new Map<string, number>();
  for (const { place, count } of counted) {
    const name = nameAt(place);
    counts.set(name, Math.max(count, counts.get(name) ?? 0));
  }
  return [...counts].flatMap(([name, count]) => {
    const allowed = exceptions[name] ?? limit;
    if (count > allowed) return [`${name}: ${count}, at most ${allowed} allowed`];
    return allowed > limit && count < allowed
      ? [`${name}: ${count}, so that its exception for ${allowed} can go down`]
      : [];
  });
}

/**
 * Returns the executed functions with their parameters, and the types that they take or read with their own members that other
 * files see. Types of libraries and of the language do not count.
 */
export function callPath(root: string, executed: readonly ExecutedFunction[]): CallPath {
  using api = new DisposableStack();
  const compiler = api.adopt(new API({ cwd: root }), (started) => started.close());
  const project = compiler.updateSnapshot({ openProjects: [`${root}/tsconfig.json`] }).getProjects()[0];
  if (project === undefined) throw new Error(`${root}/tsconfig.json: no project`);
  const functions = new Map<Node, Counted>();
  const types = new Map<string, Counted>();
  for (const [file, ranges] of Map.groupBy(executed, (one) => one.file)) {
    const source = project.program.getSourceFile(file);
    if (source === undefined) throw new Error(`${file} is not part of ${root}/tsconfig.json`);
    const declared = functionsIn(source);
    for (const range of ranges) {
      const found = nearest(declared, range);
      if (found === undefined || functions.has(found)) continue;
      functions.set(found, { place: placeOf(found, root), count: found.parameters.length });
      for (const type of project.checker.getTypeAtLocation(readIn(found))) addTypes(type, project, root, types);
    }
  }
  const sorted = (counted: Iterable<Counted>) =>
    [...counted].sort((one, other) => other.count - one.count || one.place.localeCompare(other.place));
  return { functions: sorted(functions.values()), types: sorted(types.values()) };
}

function functionsIn(source: SourceFile): FunctionLikeDeclaration[] {
  const found: FunctionLikeDeclaration[] = [];
  const visit = (node: Node): void => {
    if (isFunctionLikeDeclaration(node) && node.body !== undefined) found.push(node);
    node.forEachChild(visit);
  };
  visit(source);
  return found;
}

/** V8 counts a method from its name or its modifiers on, and a function without the types that follow its last expression. */
function nearest(declared: readonly FunctionLikeDeclaration[], { start, end }: ExecutedFunction) {
  let [best, least] = [undefined as FunctionLikeDeclaration | undefined, Number.POSITIVE_INFINITY];
  for (const node of declared) {
    const starts = [node, nameOf(node) ?? node].map((at) => at.getStart());
    const distance = Math.min(...starts.map((at) => Math.abs(at - start))) + Math.abs(node.end - end);
    if (distance < least) [best, least] = [node, distance];
  }
  return best;
}

/** The parameters of a function, and the objects whose members it reads, without those of functions in it. */
function readIn(declaration: FunctionLikeDeclaration): Node[] {
  const found: Node[] = [...declaration.parameters];
  const visit = (node: Node): void => {
    if (isFunctionLikeDeclaration(node)) return;
    if (isPropertyAccessExpression(node)) found.push(node.expression);
    if (isVariableDeclaration(node) && isObjectBindingPattern(node.name) && node.initializer)
      found.push(node.initializer);
    if (isBindingElement(node) && node.name && isObjectBindingPattern(node.name)) found.push(node.name);
    node.forEachChild(visit);
  };
  declaration.forEachChild(visit);
  return found;
}

function addTypes(type: Type | undefined, project: Project, root: string, types: Map<string, Counted>): void {
  if (type === undefined) return;
  if (type.isUnionType() || type.isIntersectionType()) {
    for (const part of type.getTypes()) addTypes(part, project, root, types);
    return;
  }
  for (const handle of type.getSymbol()?.declarations ?? []) {
    if (!/\/packages\/[^/]+\/src\//.test(handle.path) || handle.path.includes('/node_modules/')) continue;
    const node = handle.resolve(project);
    if (node === undefined) continue;
    if (!isInterfaceDeclaration(node) && !isClassLikeDeclaration(node) && !isTypeLiteralNode(node)) continue;
    const members: readonly (ClassElement | TypeElement)[] = node.members;
    const place = placeOf(node, root);
    types.set(place, { place, count: members.filter(isVisible).length });
  }
}

function isVisible(member: ClassElement | TypeElement): boolean {
  const name = nameOf(member);
  if (isConstructorDeclaration(member) || (name && isPrivateIdentifier(name))) return false;
  return !('modifierFlags' in member && Number(member.modifierFlags) & (ModifierFlags.Private | ModifierFlags.Static));
}

/** The name of a declaration; undefined for those without. */
function nameOf(node: Node): Node | undefined {
  return 'name' in node ? (node.name as Node | undefined) : undefined;
}

/** `path:line name`; what has no name has that of the declaration that it is part of. */
function placeOf(node: Node, root: string): string {
  const source = node.getSourceFile();
  const line = source.getLineAndCharacterOfPosition(node.getStart()).line + 1;
  let named = node;
  while (nameOf(named) === undefined && named.parent !== undefined) named = named.parent;
  const name = isConstructorDeclaration(node) ? 'constructor' : nameOf(named)?.getText();
  return `${relative(root, source.fileName)}:${line} ${name ?? ''}`;
}

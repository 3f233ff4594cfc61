import {
  type Alias,
  type Document,
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  type Pair,
  type ParseOptions,
  parseDocument,
  type SchemaOptions,
  type YAMLMap,
} from 'yaml';

/** Problem in a YAML text. */
export interface YamlProblem {
  /** Offset in the text. */
  readonly offset: number;
  readonly text: string;
}

/** Parsed YAML text whose aliases are resolved. */
export interface BoundedYaml {
  readonly document: Document.Parsed;
  readonly lines: LineCounter;
  /** Beyond a limit, and aliases that cannot be resolved; empty if the document has errors of its own. */
  readonly problems: readonly YamlProblem[];
  /** Returns the plain value. Only without errors and problems. */
  toPlain(): ReturnType<Document['toJS']>;
  /** Returns the offset of a key, or of the deepest existing part of its path. */
  offsetOf(path: readonly PropertyKey[]): number;
}

/** Limit of a text in UTF-16 code units; the library needs about a microsecond for each. */
const MAX_LENGTH = 16 * 1024 * 1024;
/** Limit of the keys and values, with those that aliases repeat. */
const MAX_VALUES = 1_000_000;

/**
 * Parses YAML in a time that is proportional to its length. The library alone compares each key of a map with all others, visits
 * the whole document for each alias, and takes aliases that repeat each other for millions of values: minutes for 50,000 of
 * them. Duplicate keys are left to the caller. Throws RangeError for nesting that is too deep.
 */
export function parseBoundedYaml(
  text: string,
  options: Pick<ParseOptions & SchemaOptions, 'intAsBigInt' | 'merge'> = {},
): BoundedYaml {
  const lines = new LineCounter();
  const isTooLong = text.length > MAX_LENGTH;
  const document = parseDocument(isTooLong ? '' : text, {
    ...options,
    lineCounter: lines,
    prettyErrors: false,
    // By default the library prints warnings on standard error.
    logLevel: 'error',
    uniqueKeys: false,
  });
  const aliases = new Aliases();
  if (isTooLong) aliases.problems.push({ offset: 0, text: `too long: the limit is ${MAX_LENGTH} characters` });
  else if (document.errors.length === 0) aliases.resolveAll(document.contents);
  /** Keys of maps that were searched: with a search of its own for each, many positions in one map would take minutes. */
  const keys = new WeakMap<YAMLMap, ReadonlyMap<string, Pair>>();
  const pairOf = (map: YAMLMap, key: string) => keys.getOrInsertComputed(map, pairsByKey).get(key);
  return {
    document,
    lines,
    problems: aliases.problems,
    // The library's own limit also rejects a hundred aliases of one scalar.
    toPlain: () => document.toJS({ maxAliasCount: -1 }),
    offsetOf: (path) => offsetOf(document, path, pairOf),
  };
}

/** Offset of the first character of a node. */
export function startOf(node: Node): number {
  return node.range?.[0] ?? 0;
}

/** Resolves the aliases of a document in one pass, and counts its values. */
class Aliases {
  readonly problems: YamlProblem[] = [];
  /** The latest node with each anchor. */
  readonly #anchored = new Map<string, Exclude<ReturnType<Alias['resolve']>, undefined>>();
  /** Number of values of a node with an anchor; unknown within it. */
  readonly #sizes = new Map<Node, number>();
  #isExceeded = false;

  /** Resolves the aliases in a node, and returns the number of its values. */
  resolveAll(node: unknown): number {
    if (isAlias(node)) return this.#resolve(node);
    if (!isScalar(node) && !isMap(node) && !isSeq(node)) return 0;
    if (node.anchor !== undefined) this.#anchored.set(node.anchor, node);
    let size = 1;
    if (isMap(node)) for (const { key, value } of node.items) size += this.resolveAll(key) + this.resolveAll(value);
    else if (isSeq(node)) for (const item of node.items) size += this.resolveAll(item);
    if (node.anchor !== undefined) this.#sizes.set(node, size);
    if (size > MAX_VALUES) this.#reject(node);
    return size;
  }

  #resolve(alias: Alias): number {
    const target = this.#anchored.get(alias.source);
    const { resolve } = alias;
    // The library would search the document.
    alias.resolve = (document, context) => {
      if (!target || !context) return target;
      context.aliasResolveCache = [target];
      return resolve.call(alias, document, context);
    };
    // Messages do not repeat the name: it may be an unquoted secret.
    if (!target) {
      const text = 'unresolved alias: no anchor with this name is defined before it';
      this.problems.push({ offset: startOf(alias), text });
      return 0;
    }
    const size = this.#sizes.get(target);
    if (size === undefined) {
      this.problems.push({ offset: startOf(alias), text: 'circular alias: its value contains it' });
      return 0;
    }
    return size;
  }

  #reject(node: Node): void {
    if (this.#isExceeded) return;
    this.#isExceeded = true;
    const text = `too many values, counting those that aliases repeat: the limit is ${MAX_VALUES}`;
    this.problems.push({ offset: startOf(node), text });
  }
}

/** The first pair with each key. */
function pairsByKey({ items }: YAMLMap): Map<string, Pair> {
  const pairs = new Map<string, Pair>();
  for (const pair of items) {
    const name = isScalar(pair.key) ? String(pair.key.value) : undefined;
    if (name !== undefined && !pairs.has(name)) pairs.set(name, pair);
  }
  return pairs;
}

function offsetOf(
  document: Document,
  path: readonly PropertyKey[],
  pairOf: (map: YAMLMap, key: string) => Pair | undefined,
): number {
  let node: unknown = document.contents;
  let offset = isNode(node) ? startOf(node) : 0;
  for (const step of path) {
    if (isAlias(node)) node = node.resolve(document);
    if (isMap(node)) {
      const pair = pairOf(node, String(step));
      if (pair === undefined) break;
      if (isNode(pair.key)) offset = startOf(pair.key);
      node = pair.value;
    } else if (isSeq(node) && typeof step === 'number') {
      node = node.items[step];
      if (!isNode(node)) break;
      offset = startOf(node);
    } else {
      break;
    }
  }
  return offset;
}

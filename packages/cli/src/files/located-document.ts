import { type JsonValue, parseLossless } from '@sluice/protocol/json/parse';
import { type Document, isMap, isNode, isScalar, isSeq, LineCounter, type Node, parseDocument, visit } from 'yaml';
import { Failure } from '../failure.ts';
import { parseJsonText } from './read-file.ts';

/** Keys and indexes from the root to a value. */
export type KeyPath = readonly PropertyKey[];

/** A YAML or JSON document with positions. Numbers are unchanged. */
export interface LocatedDocument {
  /** null for an empty document. */
  readonly content: JsonValue;
  /** Returns `{name}:{line}:{column}` of a key, or of the deepest existing part of the path. */
  readonly positionOf: (path: KeyPath) => string;
}

/** Parses YAML or JSON. `name` is the name for messages. Throws {@link Failure} with the position. */
export function parseLocated(text: string, name: string): LocatedDocument {
  const json = parseJsonText(text, name);
  if (json === undefined) {
    const parsed = parseYaml(text, name);
    return { content: toJson(parsed, name), positionOf: (path) => findPosition(parsed, path) };
  }
  // Parsed as YAML once, when the first position is requested.
  let parsed: ParsedYaml | undefined;
  return {
    content: json,
    positionOf: (path) => {
      parsed ??= parseYaml(text, name);
      return findPosition(parsed, path);
    },
  };
}

/** A parsed document with a function that formats offsets. */
interface ParsedYaml {
  readonly document: Document.Parsed;
  readonly at: (offset: number) => string;
}

function parseYaml(text: string, name: string): ParsedYaml {
  const lines = new LineCounter();
  // Merge keys are not part of YAML 1.2, but users of anchors expect them.
  const options = {
    lineCounter: lines,
    prettyErrors: false,
    logLevel: 'error',
    intAsBigInt: true,
    merge: true,
    // The library compares each key with all others, which takes minutes for large maps.
    uniqueKeys: false,
  } as const;
  const document = parseDocument(text, options);
  const at = (offset: number): string => {
    const { line, col } = lines.linePos(offset);
    return `${name}:${line}:${col}`;
  };
  const [problem] = [...document.errors, ...document.warnings];
  if (problem !== undefined) throw new Failure(`${at(problem.pos[0])}: ${oneLine(problem.message)}`);
  return { document, at };
}

const JSON_NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

function toJson({ document, at }: ParsedYaml, name: string): JsonValue {
  visit(document, {
    Map: (_key, { items }) => {
      const seen = new Set<string>();
      for (const { key } of items) {
        if (!isScalar(key) || key.value === '<<') continue;
        // As object members, 1 and "1" are the same key.
        const name = String(key.value);
        if (seen.has(name)) throw new Failure(`${at(startOf(key))}: duplicate key ${name}`);
        seen.add(name);
      }
    },
    Pair: (_key, { key }) => {
      if (!isScalar(key)) throw new Failure(`${at(isNode(key) ? startOf(key) : 0)}: keys must be strings`);
    },
    Scalar: (key, node) => {
      const { value, source = '' } = node;
      if (key === 'key' || (typeof value !== 'number' && typeof value !== 'bigint')) return;
      if (typeof value === 'number' && !Number.isFinite(value)) {
        if (!JSON_NUMBER.test(source)) throw new Failure(`${at(startOf(node))}: ${source} is not a JSON number`);
      }
      // Numbers in YAML-only notation (0x1f, +1, 007) are converted to JSON notation.
      node.value = parseLossless(JSON_NUMBER.test(source) ? source : String(value));
    },
  });
  try {
    const value: JsonValue = document.toJS();
    return value;
  } catch (error) {
    // An alias without its anchor, a circular alias, or excessive aliases.
    throw new Failure(`${name}: ${error instanceof Error ? oneLine(error.message) : 'cannot be read'}`, {
      cause: error,
    });
  }
}

function findPosition({ document, at }: ParsedYaml, path: KeyPath): string {
  let node: unknown = document.contents;
  let offset = isNode(node) ? startOf(node) : 0;
  for (const step of path) {
    if (isMap(node)) {
      const pair = node.items.find(({ key }) => isScalar(key) && String(key.value) === String(step));
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
  return at(offset);
}

function startOf(node: Node): number {
  return node.range?.[0] ?? 0;
}

function oneLine(message: string): string {
  return message.replace(/\s+/g, ' ').trim();
}

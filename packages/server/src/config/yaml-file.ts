import { readFile } from 'node:fs/promises';
import { type Document, isMap, isNode, isScalar, isSeq, LineCounter, type Node, parseDocument, visit } from 'yaml';
import { z } from 'zod';
import { ConfigError } from './config-error.ts';

/** Keys and indexes from the top of a file down to one value. */
export type KeyPath = readonly PropertyKey[];

/** A YAML file (JSON is YAML) whose top level is a map, and where in it each value stands. */
export interface YamlFile {
  /** The top-level map as plain values; empty for an empty file. */
  readonly content: Readonly<Record<string, unknown>>;
  /** `{file}:{line}:{column}` of a key, or of the deepest part of the path that the file has. */
  readonly where: (path: KeyPath) => string;
  /** What the parser let pass, one line each. */
  readonly warnings: readonly string[];
}

/**
 * Reads a file as UTF-8 text. Throws {@link ConfigError} with `name` in front when that fails; a missing file is
 * undefined.
 */
export async function readTextFile(file: string, name: string): Promise<string | undefined> {
  let bytes: Buffer;
  try {
    bytes = await readFile(file);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
    const reason = code === 'EISDIR' ? 'is a folder' : `cannot be read (${String(code)})`;
    throw new ConfigError(`${name} ${reason}; a readable YAML file is needed`, { cause: error });
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (error) {
    throw new ConfigError(`${name} is not UTF-8 text`, { cause: error });
  }
}

/** Parses YAML whose top level is a map with string keys. `name` is the file as messages name it. Throws {@link ConfigError}. */
export function parseYamlFile(text: string, name: string): YamlFile {
  const lines = new LineCounter();
  // The library would print its own warnings on standard error.
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, logLevel: 'error' });
  const at = (offset: number): string => {
    const { line, col } = lines.linePos(offset);
    return `${name}:${line}:${col}`;
  };

  const [broken] = document.errors;
  if (broken !== undefined) throw new ConfigError(`${at(broken.pos[0])}: ${withoutText(broken.message)}`);
  const top = document.contents;
  const empty = top === null || (isScalar(top) && top.value === null);
  if (!empty && !isMap(top)) throw new ConfigError(`${at(start(top))}: the top level is not a map of keys`);

  const where = (path: KeyPath): string => {
    let node: unknown = top;
    let offset = isNode(top) ? start(top) : 0;
    for (const step of path) {
      if (isMap(node)) {
        const pair = node.items.find(({ key }) => isScalar(key) && String(key.value) === String(step));
        if (pair === undefined) break;
        if (isNode(pair.key)) offset = start(pair.key);
        node = pair.value;
      } else if (isSeq(node) && typeof step === 'number') {
        node = node.items[step];
        if (!isNode(node)) break;
        offset = start(node);
      } else {
        break;
      }
    }
    return at(offset);
  };

  return {
    content: empty ? {} : plainMap(document, name, at),
    where,
    warnings: document.warnings.map((each) => `${at(each.pos[0])}: ${withoutText(each.message)}`),
  };
}

function plainMap(document: Document, name: string, at: (offset: number) => string): Record<string, unknown> {
  try {
    return z.record(z.string(), z.unknown()).parse(document.toJS());
  } catch (error) {
    // An alias without its anchor, or aliases that multiply beyond measure.
    const lost = aliasToNothing(document);
    if (lost) throw new ConfigError(`${at(start(lost))}: an alias to nothing: no anchor of its name stands before it`);
    const reason = error instanceof Error ? withoutText(error.message) : 'cannot be resolved';
    throw new ConfigError(`${name}: ${reason}`, { cause: error });
  }
}

function aliasToNothing(document: Document): Node | undefined {
  let found: Node | undefined;
  visit(document, {
    Alias: (_, alias) => {
      if (alias.resolve(document)) return undefined;
      found = alias;
      return visit.BREAK;
    },
  });
  return found;
}

function start(node: Node): number {
  return node.range?.[0] ?? 0;
}

/** The parser repeats text of the file behind a colon, and that may be a key that was not quoted. */
function withoutText(message: string): string {
  const [said = message] = message.split(/:\s/);
  return said.replace(/\s+/g, ' ').trim();
}

import { readFile } from 'node:fs/promises';
import {
  type Document,
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseDocument,
  visit,
  type YAMLMap,
} from 'yaml';
import { ConfigError, quote } from '../../http/address.ts';

/** A place in a file; line and column begin at 1. */
export interface Position {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** Something that is wrong with a file. */
export interface Problem {
  readonly at: Position;
  /** What is wrong and what is accepted, on one line. */
  readonly text: string;
}

/** `{file}:{line}:{column}`. */
export function formatPosition({ file, line, column }: Position): string {
  return `${file}:${line}:${column}`;
}

/** What is said of a problem, on one line. */
export function formatProblem({ at, text }: Problem): string {
  return `${formatPosition(at)}: ${text}`;
}

/** In the order of the file; what is said twice of one place is there once. */
export function sortProblems(problems: readonly Problem[]): Problem[] {
  const unique = new Map(problems.map((problem) => [formatProblem(problem), problem]));
  return [...unique.values()].toSorted((a, b) => a.at.line - b.at.line || a.at.column - b.at.column);
}

/** The error that a start ends with: the first problem, and how many more there are. */
export function refusal(problems: readonly Problem[]): ConfigError {
  const [first, ...more] = problems.map(formatProblem);
  return new ConfigError(
    more.length === 0 ? `${first}` : `${first} (and ${more.length} more; sluice pipeline check lists all)`,
  );
}

/** Keys and indexes from the top of a file down to one value. */
export type KeyPath = readonly PropertyKey[];

/** A YAML file (JSON is YAML) whose top level is a map, and where in it each value stands. */
export interface YamlFile {
  /** The top-level map as plain values; empty for an empty file. */
  readonly content: Readonly<Record<string, unknown>>;
  /** Of a key, or of the deepest part of the path that the file has. */
  readonly position: (path: KeyPath) => Position;
  /** The same, spelled `{file}:{line}:{column}`. */
  readonly where: (path: KeyPath) => string;
  /** What the parser let pass, one line each. */
  readonly warnings: readonly string[];
}

/** What came of reading a file. */
export type ReadYaml = { readonly file: YamlFile } | { readonly problems: readonly Problem[] };

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

/**
 * Parses YAML whose top level is a map with string keys. `name` is the file as messages name it. Throws
 * {@link ConfigError} for the first thing that is wrong.
 */
export function parseYamlFile(text: string, name: string): YamlFile {
  const read = readYaml(text, name);
  if ('file' in read) return read.file;
  throw new ConfigError(read.problems.slice(0, 1).map(formatProblem).join());
}

/** Parses YAML as {@link parseYamlFile} does, with all that is wrong. Never throws. */
export function readYaml(text: string, name: string): ReadYaml {
  const lines = new LineCounter();
  const at = (offset: number): Position => {
    const { line, col } = lines.linePos(offset);
    // Before the first line is parsed, there is none.
    return { file: name, line: Math.max(line, 1), column: Math.max(col, 1) };
  };
  try {
    return readDocument(text, lines, at);
  } catch (error) {
    // The library follows nesting by calling itself.
    if (error instanceof RangeError) return { problems: [{ at: at(0), text: TOO_DEEP }] };
    throw error;
  }
}

const TOO_DEEP = 'is nested too deeply';

type At = (offset: number) => Position;

function readDocument(text: string, lines: LineCounter, at: At): ReadYaml {
  // The library would print its own warnings on standard error.
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, logLevel: 'error' });
  const stranger = strangeCharacter(text, at);
  if (stranger) return { problems: [stranger] };
  // Behind the first place that cannot be read, everything may be taken for something else.
  const broken = document.errors.find(({ code }) => code !== 'DUPLICATE_KEY');
  const errors = broken ? [broken] : document.errors;
  if (errors.length > 0) {
    return { problems: errors.map(({ pos, code, message }) => ({ at: at(pos[0]), text: said(code, message) })) };
  }
  const top = document.contents;
  const empty = top === null || (isScalar(top) && top.value === null);
  if (!empty && !isMap(top)) return { problems: [{ at: at(start(top)), text: 'the top level is not a map of keys' }] };
  const problems = [...unknownKeys(document, at), ...looseAliases(document, at)];
  if (problems.length > 0) return { problems };
  const plain = plainMap(document, at);
  if ('problems' in plain) return plain;

  const position = (path: KeyPath): Position => at(offsetOf(document, path));
  return {
    file: {
      content: plain.content,
      position,
      where: (path) => formatPosition(position(path)),
      warnings: document.warnings.map(
        ({ pos, code, message }) => `${formatPosition(at(pos[0]))}: ${said(code, message)}`,
      ),
    },
  };
}

/** Characters that YAML has no place for as they are: what they do to a value cannot be seen. */
function strangeCharacter(text: string, at: At): Problem | undefined {
  const offset = text.search(/[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\u{10ffff}]|\r(?!\n)|(?!^)\ufeff/u);
  if (offset < 0) return undefined;
  const code = text.codePointAt(offset)?.toString(16).toUpperCase().padStart(4, '0');
  return {
    at: at(offset),
    text: `has the character U+${code}; leave it out, or write it as an escape in double quotes`,
  };
}

/** Keys that plain objects cannot have, or only one of. */
function unknownKeys(document: Document, at: At): Problem[] {
  const problems: Problem[] = [];
  visit(document, {
    Map: (_key, { items }: YAMLMap) => {
      const seen = new Set<string>();
      for (const { key } of items) {
        const problem = (text: string) => problems.push({ at: at(isNode(key) ? start(key) : 0), text });
        if (!isScalar(key)) {
          problem('has a key that is not a plain text');
          continue;
        }
        const name = String(key.value);
        if (name === '__proto__') problem(`has the unknown key ${quote(name)}`);
        // A merge key may come more than once, where the file says that it is of YAML 1.1.
        if (seen.has(name) && name !== '<<') problem(`has the key ${quote(name)} twice`);
        seen.add(name);
      }
    },
  });
  return problems;
}

function looseAliases(document: Document, at: At): Problem[] {
  const problems: Problem[] = [];
  visit(document, {
    Alias: (_key, alias) => {
      if (alias.resolve(document)) return;
      // Not its name: it may be a key that was not quoted.
      problems.push({ at: at(start(alias)), text: 'has an alias to nothing: no anchor of its name stands before it' });
    },
  });
  return problems;
}

/** An empty file's is an empty one. */
function plainMap(document: Document, at: At): Pick<YamlFile, 'content'> | { readonly problems: Problem[] } {
  try {
    const value: unknown = document.toJS();
    return { content: typeof value === 'object' && value !== null ? Object.fromEntries(Object.entries(value)) : {} };
  } catch (error) {
    if (!(error instanceof ReferenceError)) throw error;
    // Aliases of aliases that make one value into millions.
    let last = 0;
    visit(document, {
      Alias: (_key, alias) => {
        last = start(alias);
      },
    });
    return { problems: [{ at: at(last), text: 'has aliases that multiply beyond measure' }] };
  }
}

function offsetOf(document: Document, path: KeyPath): number {
  let node: unknown = document.contents;
  let offset = isNode(node) ? start(node) : 0;
  for (const step of path) {
    if (isAlias(node)) node = node.resolve(document);
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
  return offset;
}

function start(node: Node): number {
  return node.range?.[0] ?? 0;
}

/**
 * The library's words on one line; where they speak to programmers, in ours. Behind a colon it repeats text of the file,
 * and that may be a key that was not quoted.
 */
function said(code: string, message: string): string {
  if (code === 'MULTIPLE_DOCS') return 'has a second document; a file has one, so leave the --- out';
  if (code === 'RESOURCE_EXHAUSTION') return TOO_DEEP;
  const [what = message] = message.split(/:\s/);
  return what.replace(/\s+/g, ' ').trim();
}

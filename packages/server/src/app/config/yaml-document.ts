import { readFile } from 'node:fs/promises';
import { unknownField } from '@sluice/contract';
import { type Document, isMap, isNode, isScalar, type LineCounter, visit, type YAMLMap } from 'yaml';
import { ConfigError, quote } from '../../http/settings.ts';
import { errorCode } from '../../registry/store/files.ts';
import { parseBoundedYaml, startOf } from './bounded-yaml.ts';

/** Position in a file; line and column start at 1. */
export interface Position {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** Problem in a file. */
export interface Problem {
  readonly at: Position;
  /** The problem and the accepted values, on one line. */
  readonly text: string;
}

/** Returns `{file}:{line}:{column}`. */
export function formatPosition({ file, line, column }: Position): string {
  return `${file}:${line}:${column}`;
}

/** Returns a problem with its position on one line. */
export function formatProblem({ at, text }: Problem): string {
  return `${formatPosition(at)}: ${text}`;
}

/** Sorts problems by position and removes duplicates. */
export function sortProblems(problems: readonly Problem[]): Problem[] {
  const unique = new Map(problems.map((problem) => [formatProblem(problem), problem]));
  return [...unique.values()].toSorted((a, b) => a.at.line - b.at.line || a.at.column - b.at.column);
}

/** Returns the error for a failed startup: the first problem and the number of others. */
export function toConfigError(problems: readonly Problem[]): ConfigError {
  const [first, ...more] = problems.map(formatProblem);
  return new ConfigError(
    more.length === 0 ? `${first}` : `${first} (and ${more.length} more; run sluice pipeline check to list all)`,
  );
}

/** Keys and indexes from the top level of a file to a value. */
export type KeyPath = readonly PropertyKey[];

/** Formats the keys of a value for a message: `listeners[0].tls`. */
export function formatPath(path: KeyPath): string {
  return path.reduce<string>((text, step) => {
    if (typeof step === 'number') return `${text}[${step}]`;
    const name = String(step);
    return /^[\w-]+$/.test(name) ? `${text}${text && '.'}${name}` : `${text}[${quote(name)}]`;
  }, '');
}

/** YAML (or JSON) file with a map as its top level, and the positions of its values. */
export interface YamlFile {
  /** Top-level map as plain values; empty for an empty file. */
  readonly content: Readonly<Record<string, unknown>>;
  /** Returns the position of a key, or of the deepest existing part of its path. */
  readonly position: (path: KeyPath) => Position;
  /** Returns the same position as `{file}:{line}:{column}`. */
  readonly where: (path: KeyPath) => string;
  /** Warnings of the YAML parser, one line each. */
  readonly warnings: readonly string[];
}

/** Parsed file, or its problems. */
export type ParsedYaml = { readonly file: YamlFile } | { readonly problems: readonly Problem[] };

/**
 * Reads a UTF-8 text file; undefined if it does not exist. Throws {@link ConfigError} that starts with `name` if the
 * file cannot be read.
 */
export async function readTextFile(file: string, name: string): Promise<string | undefined> {
  let bytes: Buffer;
  try {
    bytes = await readFile(file);
  } catch (error) {
    const code = errorCode(error);
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
    const reason = code === 'EISDIR' ? 'is a folder' : `cannot be read (${String(code)})`;
    throw new ConfigError(`${name} ${reason}; expected a YAML file`, { cause: error });
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (error) {
    throw new ConfigError(`${name} is not valid UTF-8`, { cause: error });
  }
}

/**
 * Parses YAML with a map of string keys as its top level. `name` is the name of the file in messages. Throws
 * {@link ConfigError} for the first problem.
 */
export function parseYamlFile(text: string, name: string): YamlFile {
  const read = parseYaml(text, name);
  if ('file' in read) return read.file;
  throw new ConfigError(read.problems.slice(0, 1).map(formatProblem).join());
}

/** Parses as {@link parseYamlFile} does and returns all problems. Never throws. */
export function parseYaml(text: string, name: string): ParsedYaml {
  try {
    return readDocument(text, name);
  } catch (error) {
    // The library parses nested values recursively.
    if (error instanceof RangeError) return { problems: [{ at: { file: name, line: 1, column: 1 }, text: TOO_DEEP }] };
    throw error;
  }
}

const TOO_DEEP = 'nesting is too deep';

type At = (offset: number) => Position;

function positions(lines: LineCounter, file: string): At {
  return (offset) => {
    const { line, col } = lines.linePos(offset);
    // The counter has no lines before the first one is parsed.
    return { file, line: Math.max(line, 1), column: Math.max(col, 1) };
  };
}

function readDocument(text: string, name: string): ParsedYaml {
  const parsed = parseBoundedYaml(text);
  const { document } = parsed;
  const at = positions(parsed.lines, name);
  const invalidCharacter = findInvalidCharacter(text, at);
  if (invalidCharacter) return { problems: [invalidCharacter] };
  // After the first syntax error, further errors may be consequences of it.
  const [broken] = document.errors;
  if (broken) {
    const { pos, code, message } = broken;
    return { problems: [{ at: at(pos[0]), text: describeYamlError(code, message) }] };
  }
  const top = document.contents;
  const empty = top === null || (isScalar(top) && top.value === null);
  if (!empty && !isMap(top)) return { problems: [{ at: at(startOf(top)), text: 'the top level must be a map' }] };
  const found = parsed.problems.map(({ offset, text }) => ({ at: at(offset), text }));
  const problems = [...findInvalidKeys(document, at), ...found];
  if (problems.length > 0) return { problems };

  const value: unknown = parsed.toPlain();
  const position = (path: KeyPath): Position => at(parsed.offsetOf(path));
  return {
    file: {
      content: typeof value === 'object' && value !== null ? Object.fromEntries(Object.entries(value)) : {},
      position,
      where: (path) => formatPosition(position(path)),
      warnings: document.warnings.map(
        ({ pos, code, message }) => `${formatPosition(at(pos[0]))}: ${describeYamlError(code, message)}`,
      ),
    },
  };
}

/** Finds characters that YAML does not allow unescaped: their effect on a value is invisible. */
function findInvalidCharacter(text: string, at: At): Problem | undefined {
  const offset = text.search(/[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\u{10ffff}]|\r(?!\n)|(?!^)\ufeff/u);
  if (offset < 0) return undefined;
  const code = text.codePointAt(offset)?.toString(16).toUpperCase().padStart(4, '0');
  return {
    at: at(offset),
    text: `invalid character U+${code}; remove it or escape it in a double-quoted string`,
  };
}

/** Finds keys that plain objects cannot have, and duplicate keys. */
function findInvalidKeys(document: Document, at: At): Problem[] {
  const problems: Problem[] = [];
  visit(document, {
    Map: (_key, { items }: YAMLMap) => {
      const seen = new Set<string>();
      for (const { key } of items) {
        const problem = (text: string) => problems.push({ at: at(isNode(key) ? startOf(key) : 0), text });
        if (!isScalar(key)) {
          problem('keys must be strings');
          continue;
        }
        const name = String(key.value);
        if (name === '__proto__') problem(`${name} ${unknownField()}`);
        // YAML 1.1 allows several merge keys.
        if (seen.has(name) && name !== '<<') problem(`duplicate key ${quote(name)}`);
        seen.add(name);
      }
    },
  });
  return problems;
}

/**
 * Returns the library's message on one line. Drops the part after a colon: it repeats text of the file, which may be an
 * unquoted secret.
 */
function describeYamlError(code: string, message: string): string {
  if (code === 'MULTIPLE_DOCS') return 'multiple YAML documents are not supported; remove the ---';
  if (code === 'RESOURCE_EXHAUSTION') return TOO_DEEP;
  const [what = message] = message.split(/:\s/);
  return what.replace(/\s+/g, ' ').trim();
}

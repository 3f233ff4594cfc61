/** A part of a file of policies. */
export interface PolicyText {
  /** One policy with its annotations, without the comments and the white space in front of it. */
  readonly text: string;
  /** Where it begins in the file, in characters from 0. */
  readonly offset: number;
}

/** A place in a file; both numbers count from 1. */
export interface Position {
  readonly line: number;
  readonly column: number;
}

const TOKEN = /"|\/\/[^\n]*|;|[^\s"/;]+|\//g;

/**
 * Splits a file into its policies, each of which can then be parsed by itself. Knows nothing of the language but its texts and comments:
 * what is wrong with a policy, the parser says. What follows the last semicolon is a policy as well, unless it is empty.
 */
export function splitPolicies(file: string): PolicyText[] {
  const policies: PolicyText[] = [];
  let start: number | undefined;
  let end = 0;
  const add = () => {
    if (start !== undefined) policies.push({ text: file.slice(start, end), offset: start });
    start = undefined;
  };
  const tokens = new RegExp(TOKEN);
  for (let match = tokens.exec(file); match; match = tokens.exec(file)) {
    const { 0: token, index } = match;
    if (token.startsWith('//')) continue;
    start ??= index;
    if (token === '"') tokens.lastIndex = textEnd(file, index);
    end = tokens.lastIndex;
    if (token === ';') add();
  }
  add();
  return policies;
}

/** Returns where a text ends. A pattern would need memory for each of its escapes. */
function textEnd(file: string, start: number): number {
  for (let at = start + 1; at < file.length; at++) {
    if (file[at] === '"') return at + 1;
    if (file[at] === '\\') at++;
  }
  return file.length;
}

/** Returns the place of a character of a file. */
export function positionOf(file: string, offset: number): Position {
  const before = file.slice(0, offset);
  const lineStart = before.lastIndexOf('\n') + 1;
  return { line: before.split('\n').length, column: [...before.slice(lineStart)].length + 1 };
}

/** Returns the line of a place with a caret below it. */
export function excerpt(file: string, { line, column }: Position): string {
  const text = (file.split('\n')[line - 1] ?? '').replaceAll('\t', ' ').trimEnd();
  const from = Math.max(0, column - EXCERPT_COLUMNS / 2);
  const shown = [...text].slice(from, from + EXCERPT_COLUMNS).join('');
  return `${shown}\n${' '.repeat(column - 1 - from)}^`;
}

const EXCERPT_COLUMNS = 100;

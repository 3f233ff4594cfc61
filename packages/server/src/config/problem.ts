import { ConfigError } from './config-error.ts';

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
export function spelled({ file, line, column }: Position): string {
  return `${file}:${line}:${column}`;
}

/** What is said of a problem, on one line. */
export function lineOf({ at, text }: Problem): string {
  return `${spelled(at)}: ${text}`;
}

/** In the order of the file; what is said twice of one place is there once. */
export function inOrder(problems: readonly Problem[]): Problem[] {
  const unique = new Map(problems.map((problem) => [lineOf(problem), problem]));
  return [...unique.values()].toSorted((a, b) => a.at.line - b.at.line || a.at.column - b.at.column);
}

/** The error that a start ends with: the first problem, and how many more there are. */
export function refusal(problems: readonly Problem[]): ConfigError {
  const [first, ...more] = problems.map(lineOf);
  return new ConfigError(
    more.length === 0 ? `${first}` : `${first} (and ${more.length} more; sluice pipeline check lists all)`,
  );
}

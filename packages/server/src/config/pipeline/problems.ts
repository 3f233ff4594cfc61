import type { z } from 'zod';
import { ConfigError } from '../config-error.ts';
import { quote } from '../setting.ts';
import type { KeyPath, YamlFile } from '../yaml-file.ts';

/** Something that is wrong with a file. */
export interface Problem {
  /** `{file}:{line}:{column}`. */
  readonly at: string;
  readonly text: string;
}

/** What is said of a problem, on one line. */
export function lineOf({ at, text }: Problem): string {
  return `${at}: ${text}`;
}

/** The error that the start ends with: the first of the problems, and how many more there are. */
export function refusal(problems: readonly Problem[]): ConfigError {
  const [first, ...more] = problems.map(lineOf);
  return new ConfigError(more.length === 0 ? `${first}` : `${first} (and ${more.length} more)`);
}

/** What a schema found wrong with a file, each with its place. */
export function problemsOf({ issues }: z.ZodError, file: YamlFile): Problem[] {
  return issues.flatMap((issue) => {
    if (issue.code !== 'unrecognized_keys')
      return [{ at: file.where(issue.path), text: said(issue.path, issue.message) }];
    return issue.keys.map((key) => ({
      at: file.where([...issue.path, key]),
      text: said(issue.path, `has the unknown key ${quote(key)}`, 'the top level'),
    }));
  });
}

/** For what is missing or has the wrong type; other rules have their words where they stand. */
export const wrongType: z.core.$ZodErrorMap = (issue) => {
  switch (issue.code) {
    case 'invalid_type': {
      if (issue.input === undefined) return 'is missing';
      const article = /^[aeiou]/.test(issue.expected) ? 'an' : 'a';
      return `is not ${article} ${words(issue.expected)}`;
    }
    case 'invalid_value':
      return `is not ${issue.values.map(String).join(' or ')}`;
    case 'invalid_union':
      return issue.note === undefined ? undefined : 'is not the name of a filter';
    case 'too_small':
      return `is below ${issue.minimum}`;
    case 'too_big':
      return `is above ${issue.maximum}`;
    default:
      return undefined;
  }
};

/** What the schema calls a type, as someone who writes YAML knows it. */
function words(expected: string): string {
  const known: Readonly<Record<string, string>> = { array: 'list', object: 'map', record: 'map', int: 'whole number' };
  return known[expected] ?? expected;
}

function said(path: KeyPath, what: string, top = ''): string {
  const subject = path.reduce<string>(
    (text, step) => (typeof step === 'number' ? `${text}[${step}]` : `${text}${text && '.'}${String(step)}`),
    '',
  );
  return `${subject || top} ${what}`.trim();
}

import { z } from 'zod';
import type { Problem } from '../problem.ts';
import { quote } from '../setting.ts';
import type { KeyPath, YamlFile } from '../yaml-file.ts';

/** What a schema found wrong with a file, each with its place. */
export function problemsOf({ issues }: z.ZodError, file: YamlFile): Problem[] {
  return issues.flatMap((issue) => {
    if (issue.code !== 'unrecognized_keys') {
      return [{ at: file.position(issue.path), text: said(issue.path, wordsOf(issue)) }];
    }
    return issue.keys.map((key) => ({
      at: file.position([...issue.path, key]),
      text: said(issue.path, `has the unknown key ${quote(key)}; ${issue.message}`, 'the top level'),
    }));
  });
}

/** A key's own rules are beneath what is said of the key. */
function wordsOf(issue: z.core.$ZodIssue): string {
  return issue.code === 'invalid_key' ? (issue.issues[0]?.message ?? issue.message) : issue.message;
}

/** For what is missing, unknown or has the wrong type; other rules have their words where they stand. */
export const wrongType: z.core.$ZodErrorMap = (issue) => {
  switch (issue.code) {
    case 'invalid_type':
      if (issue.input === undefined) return 'is missing';
      if (issue.input === null) return `has no value; ${article(issue.expected)} is needed`;
      return `is not ${article(issue.expected)}${hint(issue.expected, issue.input)}`;
    case 'unrecognized_keys': {
      const known = issue.inst instanceof z.ZodObject ? Object.keys(issue.inst.shape) : [];
      return known.length > 0 ? `known keys: ${known.join(', ')}` : 'it has none';
    }
    case 'invalid_value':
      return `is not ${issue.values.map(String).join(' or ')}`;
    case 'too_small':
      return `is below ${issue.minimum}`;
    case 'too_big':
      return `is above ${issue.maximum}`;
    default:
      return undefined;
  }
};

/** A type as someone who writes YAML knows it. */
function article(expected: string): string {
  const known: Readonly<Record<string, string>> = {
    array: 'a list',
    object: 'a map',
    record: 'a map',
    int: 'a whole number',
    boolean: 'true or false',
  };
  return known[expected] ?? `a ${expected}`;
}

/** A name such as 007 or true is a number or a truth value to YAML, and "7" is none. */
function hint(expected: string, input: unknown): string {
  if (expected === 'string' && (typeof input === 'number' || typeof input === 'boolean')) return '; quote it';
  const unquoted = expected === 'boolean' ? /^(true|false)$/ : /^-?\d+$/;
  const scalar = expected === 'boolean' || expected === 'number' || expected === 'int';
  return scalar && typeof input === 'string' && unquoted.test(input) ? '; leave the quotes out' : '';
}

function said(path: KeyPath, what: string, top = ''): string {
  const subject = path.reduce<string>((text, step) => {
    if (typeof step === 'number') return `${text}[${step}]`;
    const name = String(step);
    return /^[\w-]+$/.test(name) ? `${text}${text && '.'}${name}` : `${text}[${quote(name)}]`;
  }, '');
  return `${subject || top} ${what}`.trim();
}

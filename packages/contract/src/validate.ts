import type { z } from 'zod';

/** Violation of a schema. `path` is dotted and empty for the whole value; `message` is a predicate: `must be a string`. */
export interface ValidationIssue {
  readonly path: string;
  readonly message: string;
}

/**
 * The predicate of a member that is not known: with the known ones, or other `advice`, and with the `consequence` if that is not an
 * error.
 */
export function unknownField(advice?: readonly string[] | string, consequence?: 'is ignored' | 'is stored'): string {
  const problem = consequence === undefined ? 'is not a known field' : `is not a known field and ${consequence}`;
  if (advice === undefined) return problem;
  return `${problem}; ${typeof advice === 'string' ? advice : `known fields: ${advice.join(', ') || 'none'}`}`;
}

/** Advice about a member that is probably misspelled. */
export function didYouMean(suggestion: string): string {
  return `did you mean "${suggestion}"?`;
}

/** Limits the size of an error response. */
const MAX_ISSUES = 100;

/** Parses a value with a schema. Returns the parsed value, or at most 100 issues. */
export function validate<T extends z.ZodType>(
  schema: T,
  value: unknown,
): { readonly value: z.output<T> } | { readonly issues: readonly ValidationIssue[] } {
  const result = schema.safeParse(value, { reportInput: true, error: describeIssue });
  if (result.success) return { value: result.data };
  return {
    issues: result.error.issues
      .flatMap((issue) => {
        const message = issue.message.replace(/^Invalid input: /, '');
        // Zod reports unknown members in one issue; they are listed separately, like other issues.
        const members = issue.code === 'unrecognized_keys' ? issue.keys : [];
        const paths = members.length > 0 ? members.map((member) => [...issue.path, member]) : [issue.path];
        return paths.map((path) => ({ path: path.join('.'), message }));
      })
      .slice(0, MAX_ISSUES),
  };
}

/** The members of an object schema. */
function membersOf(schema: unknown): string[] {
  const shape: unknown = typeof schema === 'object' && schema !== null && 'shape' in schema ? schema.shape : undefined;
  return typeof shape === 'object' && shape !== null ? Object.keys(shape) : [];
}

const TYPES: Readonly<Record<string, string>> = {
  string: 'a string',
  number: 'a number',
  int: 'an integer',
  boolean: 'a boolean',
  object: 'an object',
  record: 'an object',
  array: 'a list',
  null: 'null',
};

/** Replaces Zod's messages; those that a schema declares itself take precedence. */
function describeIssue(issue: z.core.$ZodRawIssue): string | undefined {
  if (issue.input === undefined) return 'is required';
  switch (issue.code) {
    case 'invalid_type':
      return `must be ${TYPES[issue.expected] ?? issue.expected}`;
    case 'invalid_value':
      return issue.values.length === 1
        ? `must be ${String(issue.values[0])}`
        : `must be one of ${issue.values.join(', ')}`;
    case 'unrecognized_keys':
      return unknownField(membersOf(issue.inst));
    case 'too_small':
      return `must be at least ${issue.minimum}`;
    case 'too_big':
      return `must be at most ${issue.maximum}`;
    default:
      return undefined;
  }
}

import type { ErrorObject } from 'ajv';

/** Errors that are told of one value, and characters of each. */
const MOST_ERRORS = 10;
const LONGEST_ERROR = 300;

/** What is wrong with a value by a schema, joined with `; `: where it is and what, never the value itself. */
export function errorsText(errors: readonly ErrorObject[]): string {
  return errors.slice(0, MOST_ERRORS).map(errorText).join('; ');
}

/** A text of so many characters at most. */
export function cut(text: string, longest: number): string {
  return text.length <= longest ? text : `${text.slice(0, longest - 1).toWellFormed()}…`;
}

function errorText({ instancePath, keyword, params, message = `does not fit "${keyword}"` }: ErrorObject): string {
  // They are the schema's.
  const allowed = keyword === 'enum' ? `: ${JSON.stringify(params.allowedValues).slice(1, -1)}` : '';
  return cut(`${instancePath === '' ? '/' : instancePath} ${message}${allowed}`, LONGEST_ERROR);
}

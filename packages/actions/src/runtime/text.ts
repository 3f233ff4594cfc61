/**
 * An argument of a host function that has to be a string. What is none would end the action in a way that it cannot
 * catch; here it throws `TypeError`, which says what was wrong and not what the value was.
 */
export function text(value: unknown, called: string, what: string): string {
  if (typeof value === 'string') return value;
  throw new TypeError(`${called}: the ${what} must be a string, not ${kind(value)}`);
}

/** The same of a list of strings. */
export function texts(value: unknown, called: string, what: string): string[] {
  if (!Array.isArray(value)) throw new TypeError(`${called}: the ${what} must be an array, not ${kind(value)}`);
  return value.map((item) => text(item, called, `items of the ${what}`));
}

function kind(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}

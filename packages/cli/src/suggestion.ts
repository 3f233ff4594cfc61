import { closestMatch } from './nearest.ts';

/** What the parser says of a value that is not among the choices, and under it the choice that may have been meant. */
export function addSuggestion(text: string): string {
  const [, value, choices] =
    /(?:value|argument) '([^']*)' is invalid\b.*\. Allowed choices are (.*)\.\n$/s.exec(text) ?? [];
  if (value === undefined || choices === undefined) return text;
  const meant = closestMatch(value, choices.split(', '));
  return meant === undefined ? text : `${text}(Did you mean ${meant}?)\n`;
}

import { Failure } from '../failure.ts';

/** Collects `-l key=value`, as an option's parser for commander. Throws {@link Failure} for text without `=`. */
export function collectKeyValue(text: string, so: Readonly<Record<string, string>> = {}): Record<string, string> {
  const at = text.indexOf('=');
  if (at < 1) throw new Failure(`"${text}" must be of the form key=value`);
  return { ...so, [text.slice(0, at)]: text.slice(at + 1) };
}

/** Labels as people read them. */
export function formatLabels(labels: Readonly<Record<string, string>>): string {
  return Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .join(',');
}

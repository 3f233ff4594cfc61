import { diffChars } from 'diff';

/** Maximum number of added or removed letters; a replaced letter counts twice. */
const MAX_DISTANCE = 2;
/** Shorter candidates match only exactly. */
const MIN_LENGTH = 3;

/** Returns the candidate that is most similar to a word; undefined when none is similar. Ignores case, `-` and `_`. */
export function closestMatch(input: string, known: readonly string[]): string | undefined {
  const [found] = known
    .map((name) => ({ name, distance: distance(normalize(input), normalize(name)) }))
    .filter(({ name, distance }) => distance === 0 || (distance <= MAX_DISTANCE && name.length >= MIN_LENGTH))
    .sort((a, b) => a.distance - b.distance);
  return found?.name;
}

function normalize(word: string): string {
  return word.toLowerCase().replace(/[-_]/g, '');
}

function distance(a: string, b: string): number {
  if (Math.abs(a.length - b.length) > MAX_DISTANCE) return Number.POSITIVE_INFINITY;
  return diffChars(a, b)
    .filter(({ added, removed }) => added || removed)
    .reduce((sum, { value }) => sum + value.length, 0);
}

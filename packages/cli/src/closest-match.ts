import { diffChars } from 'diff';

/** Letters that may be too many or missing, a wrong one being both. */
const MAX_DISTANCE = 2;
/** Of a shorter one too little is left to be near to it. */
const MIN_LENGTH = 3;

/**
 * The one of these that a word is most likely meant to be; undefined when it is near to none. Case counts for nothing,
 * nor do `-` and `_`.
 */
export function closestMatch(word: string, known: readonly string[]): string | undefined {
  const [found] = known
    .map((name) => ({ name, distance: distance(normalize(word), normalize(name)) }))
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

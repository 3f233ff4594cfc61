import { diffChars } from 'diff';

/** Letters that may be too many or missing, a wrong one being both. */
const NEAR = 2;
/** Of a shorter one too little is left to be near to it. */
const SHORTEST = 3;

/**
 * The one of these that a word is most likely meant to be; undefined when it is near to none. Case counts for nothing,
 * nor do `-` and `_`.
 */
export function nearest(word: string, known: readonly string[]): string | undefined {
  const [found] = known
    .map((name) => ({ name, distance: distance(plain(word), plain(name)) }))
    .filter(({ name, distance }) => distance === 0 || (distance <= NEAR && name.length >= SHORTEST))
    .sort((a, b) => a.distance - b.distance);
  return found?.name;
}

function plain(word: string): string {
  return word.toLowerCase().replace(/[-_]/g, '');
}

function distance(a: string, b: string): number {
  if (Math.abs(a.length - b.length) > NEAR) return Number.POSITIVE_INFINITY;
  return diffChars(a, b)
    .filter(({ added, removed }) => added || removed)
    .reduce((sum, { value }) => sum + value.length, 0);
}

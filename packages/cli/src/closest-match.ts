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
  return a.length + b.length - 2 * commonLetters(a, b);
}

/** Length of the longest common subsequence. */
function commonLetters(a: string, b: string): number {
  let row: readonly number[] = Array.from({ length: b.length + 1 }, () => 0);
  for (const letter of a) {
    const next = [0];
    for (let at = 0; at < b.length; at += 1) {
      const longest = letter === b[at] ? (row[at] ?? 0) + 1 : Math.max(row[at + 1] ?? 0, next[at] ?? 0);
      next.push(longest);
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}

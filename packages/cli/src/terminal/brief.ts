/** Longer than any question that people read. */
const LONGEST = 1000;

/** Text from elsewhere that people are to read: with single blanks, without empty pages, and not without end. */
export function abbreviate(text: string): string {
  const dense = text
    .replace(/[^\S\n]+/g, ' ')
    .replace(/ ?\n ?/g, '\n')
    .replace(/\n{3,}/g, '\n\n');
  return dense.length <= LONGEST ? dense : `${dense.slice(0, LONGEST)} …`;
}

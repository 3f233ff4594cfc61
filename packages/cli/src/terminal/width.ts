import stringWidth from 'string-width';

/**
 * Most characters for each column. Marks need no column, and a thousand of them on a letter would be a line of its own in
 * the terminal's memory, and a tower on its screen; what people write stays far below.
 */
const CHARACTERS_PER_COLUMN = 8;

const ASCII = /^[\x20-\x7e]*$/;

/** How many columns a terminal needs for a line. */
export function displayWidth(line: string): number {
  return ASCII.test(line) ? line.length : stringWidth(line);
}

/** The line, cut to a number of columns; what was cut has an ellipsis as its last character. */
export function truncateToWidth(line: string, columns: number): string {
  const most = CHARACTERS_PER_COLUMN * columns;
  if (line.length <= most && displayWidth(line) <= columns) return line;
  let cut = '';
  let used = 1;
  // Half a character at the end would be shown as something else.
  for (const { segment } of new Intl.Segmenter().segment(line.slice(0, most).replace(/[\ud800-\udbff]$/, ''))) {
    used += displayWidth(segment);
    if (used > columns) break;
    cut += segment;
  }
  return `${cut}…`;
}

/** The line, followed by blanks up to a number of columns. */
export function padToWidth(line: string, columns: number): string {
  return line + ' '.repeat(Math.max(0, columns - displayWidth(line)));
}

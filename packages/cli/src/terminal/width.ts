import stringWidth from 'string-width';

const ASCII = /^[\x20-\x7e]*$/;

/** How many columns a terminal needs for a line. */
export function displayWidth(line: string): number {
  return ASCII.test(line) ? line.length : stringWidth(line);
}

/** The line, cut to a number of columns; what was cut has an ellipsis as its last character. */
export function cutToWidth(line: string, columns: number): string {
  if (displayWidth(line) <= columns) return line;
  let cut = '';
  let used = 1;
  for (const { segment } of new Intl.Segmenter().segment(line)) {
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

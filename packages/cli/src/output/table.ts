import { harmlessLine } from '../terminal/harmless.ts';
import type { Style } from '../terminal/style.ts';
import { cutToWidth, displayWidth, padToWidth } from '../terminal/width.ts';

/** One column of a table. */
export interface Column<Row> {
  readonly title: string;
  /** The cell's text; made harmless and put on one line here. */
  readonly value: (row: Row) => string;
}

const GAP = 2;
/** A column is not cut to less than this. */
const NARROWEST = 8;

/**
 * Rows as aligned lines under a head. With a width, columns are cut until a row fits, the widest first; without one
 * nothing is, so that what reads a pipe gets everything.
 */
export function formatTable<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  width: number | undefined,
  style: Style,
): string {
  const cells = rows.map((row) => columns.map(({ value }) => harmlessLine(value(row))));
  const natural = columns.map(({ title }, at) =>
    cells.reduce((widest, row) => Math.max(widest, displayWidth(row[at] ?? '')), displayWidth(title)),
  );
  const widths = width === undefined ? natural : narrowed(natural, width - GAP * (columns.length - 1));
  const line = (texts: readonly string[]): string =>
    texts
      .map((text, at) => padToWidth(cutToWidth(text, widths[at] ?? 0), widths[at] ?? 0))
      .join(' '.repeat(GAP))
      .trimEnd();
  const head = style('bold', line(columns.map(({ title }) => title)));
  return [head, ...cells.map(line)].map((text) => `${text}\n`).join('');
}

function narrowed(natural: readonly number[], available: number): number[] {
  const needed = (limit: number) => natural.reduce((sum, width) => sum + Math.min(width, limit), 0);
  let limit = Math.max(NARROWEST, ...natural);
  while (limit > NARROWEST && needed(limit) > available) limit -= 1;
  return natural.map((width) => Math.min(width, limit));
}

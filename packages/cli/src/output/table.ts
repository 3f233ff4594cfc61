import type { Style } from '../terminal/terminal.ts';
import { displayWidth, padToWidth, sanitizeLine, truncateToWidth } from '../terminal/text.ts';

/** One column of a table. */
export interface Column<Row> {
  readonly title: string;
  /** Text of a cell; sanitized by the table. */
  readonly value: (row: Row) => string;
  /**
   * `never` for names, which users must be able to copy. `first` for prose, which is truncated first, also without a
   * terminal. Other columns are truncated when that is not enough.
   */
  readonly cut?: 'never' | 'first';
}

const GAP = 2;
/** Minimum width of a truncated column. */
const MIN_WIDTH = 8;
/** Maximum width of prose; JSON and `show` contain all of it. */
const MAX_PROSE_WIDTH = 80;
/** Maximum width that a cell imposes on the following rows. */
const MAX_CARRIED_WIDTH = 40;

/**
 * Formats rows as aligned lines under a header. With a width, columns are truncated until rows fit: prose first, then
 * the widest column; rows with long names may be wider. Without a width only prose is truncated.
 */
export function formatTable<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  width: number | undefined,
  style: Style,
): string {
  const cells = rows.map((row) => columns.map(({ value }) => sanitizeLine(value(row))));
  const natural = columns.map(({ title, cut }, at) => {
    const widest = cells.reduce((so, row) => Math.max(so, displayWidth(row[at] ?? '')), displayWidth(title));
    return cut === 'first' ? Math.min(widest, MAX_PROSE_WIDTH) : widest;
  });
  const widths = fitWidths(columns, natural, width);
  const line = (texts: readonly string[]) => formatLine(texts, widths);
  const head = style('bold', line(columns.map(({ title }) => title)));
  return [head, ...cells.map(line)].map((text) => `${text}\n`).join('');
}

/**
 * Formats rows that arrive one by one: each column is as wide as its widest cell so far. The header precedes the first
 * row. Otherwise like {@link formatTable}.
 */
export function createRunningTable<Row>(
  columns: readonly Column<Row>[],
  style: Style,
): (row: Row, width: number | undefined) => string {
  const titles = columns.map(({ title }) => title);
  let widest = columns.map(() => 0);
  let begun = false;
  return (row, width) => {
    const cells = columns.map(({ value }) => sanitizeLine(value(row)));
    const natural = cells.map((cell, at) => {
      const own = Math.max(displayWidth(cell), displayWidth(titles[at] ?? ''));
      return columns[at]?.cut === 'first' ? Math.min(own, MAX_PROSE_WIDTH) : Math.max(own, widest[at] ?? 0);
    });
    // One very long name must not shift all later rows.
    widest = natural.map((own) => Math.min(own, MAX_CARRIED_WIDTH));
    const widths = fitWidths(columns, natural, width);
    const head = begun ? '' : `${style('bold', formatLine(titles, widths))}\n`;
    begun = true;
    return `${head}${formatLine(cells, widths)}\n`;
  };
}

function formatLine(texts: readonly string[], widths: readonly number[]): string {
  return texts
    .map((text, at) => padToWidth(truncateToWidth(text, widths[at] ?? 0), widths[at] ?? 0))
    .join(' '.repeat(GAP))
    .trimEnd();
}

/** Reduces column widths until a row fits or nothing more may be truncated. */
function fitWidths<Row>(
  columns: readonly Column<Row>[],
  natural: readonly number[],
  width: number | undefined,
): readonly number[] {
  const available = width === undefined ? Number.POSITIVE_INFINITY : width - GAP * (columns.length - 1);
  const columnsWithCut = (cut: Column<Row>['cut']) => columns.map((column) => column.cut === cut);
  return shrink(shrink(natural, columnsWithCut('first'), available), columnsWithCut(undefined), available);
}

/** Limits the widths of some columns as far as needed. */
function shrink(widths: readonly number[], those: readonly boolean[], available: number): number[] {
  const limited = (limit: number) => widths.map((width, at) => (those[at] ? Math.min(width, limit) : width));
  const tooWide = (limit: number) => limited(limit).reduce((sum, width) => sum + width, 0) > available;
  let limit = Math.max(MIN_WIDTH, ...widths);
  while (limit > MIN_WIDTH && tooWide(limit)) limit -= 1;
  return limited(limit);
}

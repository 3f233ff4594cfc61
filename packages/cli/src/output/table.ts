import type { Style } from '../terminal/terminal.ts';
import { displayWidth, padToWidth, sanitizeLine, truncateToWidth } from '../terminal/text.ts';

/** One column of a table. */
export interface Column<Row> {
  readonly title: string;
  /** The cell's text; made harmless and put on one line here. */
  readonly value: (row: Row) => string;
  /**
   * `never` for names, which people must be able to type. `first` for prose, which gives way before anything else, and
   * is cut even where there is no terminal. Others are cut when that is not enough.
   */
  readonly cut?: 'never' | 'first';
}

const GAP = 2;
/** A column is not cut to less than this. */
const MIN_WIDTH = 8;
/** Prose is cut to this in any case; all of it is in JSON, and where one thing is shown. */
const MAX_PROSE_WIDTH = 80;
/** What a cell of a row that comes alone asks of the rows after it. */
const MAX_CARRIED_WIDTH = 40;

/**
 * Rows as aligned lines under a head. With a width, columns are cut until a row fits, prose first, then the widest; a
 * row of long names may be wider all the same. Without a width only prose is cut, to a line.
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
 * The lines of rows that come one by one, so that nobody knows how wide their cells will be: columns become as wide as
 * the widest cell so far. The head stands before the first. Otherwise as {@link formatTable}.
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
    // One name without end must not push the cells of all later rows away.
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

/** The widths of columns, cut until a row fits or nothing more may be cut. */
function fitWidths<Row>(
  columns: readonly Column<Row>[],
  natural: readonly number[],
  width: number | undefined,
): readonly number[] {
  const available = width === undefined ? Number.POSITIVE_INFINITY : width - GAP * (columns.length - 1);
  const having = (cut: Column<Row>['cut']) => columns.map((column) => column.cut === cut);
  return narrow(narrow(natural, having('first'), available), having(undefined), available);
}

/** The widths, with those of some columns cut to a limit, as far as is needed. */
function narrow(widths: readonly number[], those: readonly boolean[], available: number): number[] {
  const limited = (limit: number) => widths.map((width, at) => (those[at] ? Math.min(width, limit) : width));
  const tooWide = (limit: number) => limited(limit).reduce((sum, width) => sum + width, 0) > available;
  let limit = Math.max(MIN_WIDTH, ...widths);
  while (limit > MIN_WIDTH && tooWide(limit)) limit -= 1;
  return limited(limit);
}

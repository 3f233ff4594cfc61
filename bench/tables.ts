import {
  type CostRatio,
  costSpread,
  formatRange,
  hundredths,
  type Spread,
  spread,
  table,
  tenths,
  whole,
} from './figures.ts';
import { type Bound, type MeasuredCase, meets, ratioOf, type Sample } from './rounds.ts';

/** Row of a table: cells, and a figure that may be bounded. */
export interface Row {
  readonly title: string;
  readonly cells: readonly string[];
  readonly figure: number | Spread | CostRatio;
  readonly format: (value: number) => string;
  readonly bound?: Bound | undefined;
  /** True if the figure counts as met in spite of its bound. */
  readonly isTie?: boolean;
}

/** Table of a report; its last column has the bounds. */
export interface Table {
  readonly head: readonly string[];
  readonly rows: readonly Row[];
}

/** Figures of a part. */
export interface Report {
  /** Name of the block in the page. */
  readonly block: string;
  /** Number and duration of the measurements. */
  readonly measured: string;
  readonly tables: readonly Table[];
}

/** Formats a table. Adds a line to `missed` for each figure that does not meet its bound. */
export function formatTable({ head, rows }: Table, missed: string[]): string {
  const body = rows.map(({ title, cells, figure, format, bound, isTie }) => {
    const range = typeof figure === 'number' ? { median: figure, least: figure, greatest: figure } : figure;
    const value = 'median' in range ? range.median : range.figure;
    const text = Number.isNaN(value) ? '' : formatRange(range, format);
    if (bound === undefined) return [title, ...cells, text, ''];
    const required = 'floor' in bound ? `at least ${format(bound.floor)}` : `at most ${format(bound.limit)}`;
    const isMet = isTie === true || meets(value, bound);
    if (!isMet) missed.push(`${title}: ${format(value)}, required ${required}`);
    const aim = bound.aim === undefined ? '' : `, aim ${format(bound.aim)}`;
    return [title, ...cells, text && `**${text}**`, `${isMet ? '' : '**missed** '}${required}${aim}`];
  });
  return table([...head, 'required'], body);
}

/** Returns the table of CPU times with their ratio. All cases have the same targets. */
export function costTable(
  what: string,
  cases: readonly MeasuredCase[],
  isTie?: (measured: MeasuredCase) => boolean,
): Table {
  const names = cases[0]?.lanes.map(({ name }) => name) ?? [];
  const [first, last] = [names[0], names.at(-1)];
  const isLimit = cases[0]?.bound !== undefined && 'limit' in cases[0].bound;
  return {
    head: [what, ...names, 'per second', isLimit ? `${last} / ${first}` : `${first} / ${last}`],
    rows: cases.map((measured) => ({
      title: measured.title,
      cells: [
        ...measured.lanes.map(({ samples }) => costCell(samples)),
        perSecond(measured.lanes.at(-1)?.samples ?? []),
      ],
      figure: ratioOf(measured),
      format: hundredths,
      bound: measured.bound,
      isTie: isTie?.(measured) ?? false,
    })),
  };
}

function costCell(samples: readonly Sample[]): string {
  const costs = costSpread(samples.map(({ cpuUs }) => cpuUs));
  if (Number.isNaN(costs.lowerQuartile)) return '';
  return formatRange(costs, costs.lowerQuartile >= 1_000 ? whole : tenths);
}

const perSecond = (samples: readonly Sample[]) => whole(spread(samples.map((sample) => sample.perSecond)).median);

/** Median, minimum and maximum. */
export interface Spread {
  readonly median: number;
  readonly least: number;
  readonly greatest: number;
}

/** Returns the percentile `part` (0 to 1) of the values; NaN without values. */
export function percentile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN;
}

/** Returns median, minimum and maximum. */
export function spread(values: readonly number[]): Spread {
  const sorted = values.toSorted((a, b) => a - b);
  const low = sorted[Math.floor((sorted.length - 1) / 2)] ?? Number.NaN;
  const high = sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
  return { median: (low + high) / 2, least: sorted[0] ?? Number.NaN, greatest: sorted.at(-1) ?? Number.NaN };
}

/**
 * Lower quartile, minimum and maximum of CPU times. Other activity on the machine only adds to them, on a busy one in most
 * rounds: then it determines the median.
 */
export interface CostSpread {
  readonly lowerQuartile: number;
  readonly least: number;
  readonly greatest: number;
}

/** Returns the lower quartile, interpolated, with minimum and maximum. */
export function costSpread(values: readonly number[]): CostSpread {
  const sorted = values.toSorted((a, b) => a - b);
  const place = (sorted.length - 1) / 4;
  const [below, above] = [sorted[Math.floor(place)] ?? Number.NaN, sorted[Math.ceil(place)] ?? Number.NaN];
  const { least, greatest } = spread(values);
  return { lowerQuartile: below + (above - below) * (place % 1), least, greatest };
}

/** Ratio of two CPU times. */
export interface CostRatio {
  /** Ratio of the lower quartiles. */
  readonly figure: number;
  /** Least and greatest ratio in a round. */
  readonly least: number;
  readonly greatest: number;
}

/** Returns the ratio of the CPU times of two targets in the rounds in which both were measured. */
export function costRatio(costs: readonly number[], others: readonly number[]): CostRatio {
  const rounds = Math.min(costs.length, others.length);
  const quartile = (values: readonly number[]) => costSpread(values.slice(0, rounds)).lowerQuartile;
  const { least, greatest } = spread(costs.slice(0, rounds).map((cost, round) => cost / (others[round] ?? Number.NaN)));
  return { figure: quartile(costs) / quartile(others), least, greatest };
}

/** Median with a 95 % confidence interval. */
export interface Interval {
  readonly median: number;
  readonly low: number;
  readonly high: number;
}

/**
 * Returns the median and its 95 % interval by the sign test, which assumes nothing about the distribution: for 20 values,
 * the 6th to the 15th. With fewer than 6 values, the interval is the whole range.
 */
export function medianInterval(values: readonly number[]): Interval {
  const sorted = values.toSorted((a, b) => a - b);
  const count = sorted.length;
  // The largest rank such that, in at most 2.5 % of samples, fewer values than that are below the true median.
  let rank = 0;
  let probability = 0.5 ** count;
  let tail = probability;
  while (tail <= 0.025) {
    rank++;
    probability *= (count - rank + 1) / rank;
    tail += probability;
  }
  const cut = Math.max(rank - 1, 0);
  return {
    median: spread(values).median,
    low: sorted[cut] ?? Number.NaN,
    high: sorted[count - 1 - cut] ?? Number.NaN,
  };
}

/** Formats of figures. */
export const whole = (value: number) => Math.round(value).toLocaleString('en-US');
export const tenths = (value: number) => value.toFixed(1);
export const hundredths = (value: number) => value.toFixed(2);
export const thousandths = (value: number) => value.toFixed(3);

/** Formats a figure with its range, if there is one; empty for undefined. */
export function formatRange(
  values: Spread | CostSpread | CostRatio | undefined,
  format: (value: number) => string,
): string {
  if (values === undefined) return '';
  const { least, greatest } = values;
  const figure = 'median' in values ? values.median : 'figure' in values ? values.figure : values.lowerQuartile;
  return least === greatest ? format(figure) : `${format(figure)} (${format(least)}-${format(greatest)})`;
}

/** Returns a Markdown table with padded columns, which is also readable in a terminal. */
export function table(head: readonly string[], body: readonly (readonly string[])[]): string {
  const widths = head.map((title, column) =>
    Math.max(title.length, 3, ...body.map((cells) => cells[column]?.length ?? 0)),
  );
  const line = (cells: readonly string[]) =>
    `| ${widths.map((width, column) => (cells[column] ?? '').padEnd(width)).join(' | ')} |`;
  return [line(head), `| ${widths.map((width) => '-'.repeat(width)).join(' | ')} |`, ...body.map(line)].join('\n');
}

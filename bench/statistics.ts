/** The middle value, and the least and the greatest beside it. */
export interface Spread {
  readonly median: number;
  readonly least: number;
  readonly greatest: number;
}

/** Value below which the share `part` (0 to 1) of the values lies; NaN of none. */
export function percentile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN;
}

/** Median and range of values measured in several rounds. */
export function spread(values: readonly number[]): Spread {
  const sorted = values.toSorted((a, b) => a - b);
  const low = sorted[Math.floor((sorted.length - 1) / 2)] ?? Number.NaN;
  const high = sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
  return { median: (low + high) / 2, least: sorted[0] ?? Number.NaN, greatest: sorted.at(-1) ?? Number.NaN };
}

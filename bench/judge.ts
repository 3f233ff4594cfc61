import type { Spread } from './statistics.ts';
import { hundredths } from './table.ts';

/** Tells `missed` of a ratio below its floor and of an added time above its limit, where there are such. */
export function judge(
  ratio: Spread | undefined,
  addedMs: number | undefined,
  limitMs: number | undefined,
  { title, floor }: { readonly title: string; readonly floor: number | undefined },
  missed: string[],
): void {
  if (ratio !== undefined && floor !== undefined && ratio.median < floor) {
    missed.push(`${title}: ratio ${hundredths(ratio.median)} is below its floor ${floor}`);
  }
  if (addedMs !== undefined && limitMs !== undefined && addedMs > limitMs) {
    missed.push(`${title}: added p50 of ${addedMs.toFixed(3)} ms is above ${limitMs} ms`);
  }
}

import { streamAddedLimitMs } from './cases.ts';
import { judge } from './judge.ts';
import { streamCount } from './stream-load.ts';
import type { StreamFigures } from './streams.ts';
import { bold, hundredths, range, table, tenths, thousandths, whole } from './table.ts';

/** The table of event streams; tells `missed` of floors and limits that were missed. */
export function streamTable(figures: readonly StreamFigures[], missed: string[]): string {
  const head = [
    `${streamCount} at once`,
    'through',
    'CPU µs per chunk',
    'ratio',
    'aim',
    'floor',
    'chunks per second',
    'p50 ms',
    'added',
    'p99 ms',
    'RSS MiB',
  ];
  const body = figures.flatMap(({ case: measured, rows }) =>
    rows.map((row) => {
      const own = row.contender === 'gateway';
      if (own) judge(row.ratio, row.addedMs?.median, streamAddedLimitMs, measured, missed);
      const added = range(row.addedMs, thousandths);
      return [
        measured.title,
        own ? '**gateway**' : row.contender,
        range(row.cpuPerChunkUs, tenths),
        bold(range(row.ratio, hundredths), own),
        own ? (measured.aim?.toFixed(2) ?? '') : '',
        own ? (measured.floor?.toFixed(2) ?? '') : '',
        whole(row.perSecond.median),
        range(row.p50Ms, thousandths),
        own ? `${added}, limit ${streamAddedLimitMs}` : added,
        range(row.p99Ms, tenths),
        row.rssMiB === undefined ? '' : whole(row.rssMiB),
      ];
    }),
  );
  return table(head, body);
}

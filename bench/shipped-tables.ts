import { loadedLimit, memoryLimitsMB, pacedLimit, singleLimitsMs } from './cases.ts';
import { bold, type CostSpread, formatRange, hundredths, table, tenths, thousandths, whole } from './figures.ts';
import { type LatencyFigures, pacedRate } from './latency.ts';
import { type MemoryFigures, slowReader } from './memory.ts';
import type { RequestFigures } from './requests.ts';

/** Returns the table of requests; adds missed floors to `missed`. */
export function requestTable(figures: readonly RequestFigures[], missed: string[]): string {
  return table(
    ['CPU µs per response', 'relay', 'nginx', 'gateway', 'relay / gateway', 'aim', 'floor', 'met', 'nginx / gateway'],
    figures.flatMap(({ case: { title, aim, floor }, rows }) => {
      const of = (name: string) => rows.find(({ contender }) => contender === name);
      const [relay, nginx, gateway] = [of('relay'), of('nginx'), of('gateway')];
      if (gateway === undefined) return [];
      if (floor !== undefined && gateway.ratio.figure < floor) {
        missed.push(`${title}: ${thousandths(gateway.ratio.figure)} of the relay is below its floor ${floor}`);
      }
      const cost = (of: CostSpread | undefined) => formatRange(of, of && of.lowerQuartile >= 1_000 ? whole : tenths);
      return [
        [
          title,
          cost(relay?.cpuUs),
          cost(nginx?.cpuUs),
          cost(gateway.cpuUs),
          bold(formatRange(gateway.ratio, hundredths), true),
          aim?.toFixed(2) ?? '',
          floor?.toFixed(2) ?? '',
          metLimit(gateway.ratio.figure, aim, floor),
          nginx === undefined ? '' : hundredths(gateway.nginxRatio.figure),
        ],
      ];
    }),
  );
}

/** Returns what a ratio has met; empty without a floor. */
function metLimit(ratio: number, aim: number | undefined, floor: number | undefined): string {
  if (aim === undefined || floor === undefined) return '';
  return ratio >= aim ? 'aim' : ratio >= floor ? 'floor' : '**missed**';
}

/** Returns the table of gateways with other settings or a loaded registry; adds missed limits to `missed`. */
export function variantTable(figures: readonly RequestFigures[], missed: string[]): string {
  return table(
    ['other settings, CPU µs per response', 'gateway', 'relay / gateway', 'relative to the default', 'limit'],
    figures.flatMap(({ case: { title }, rows }) =>
      rows.flatMap(({ contender, cpuUs, ratio, toGateway }) => {
        if (toGateway === undefined) return [];
        const isLimited = contender === 'gateway, 10,000 other tools';
        const what = `${title}, ${contender.replace('gateway, ', '')}`;
        if (isLimited && toGateway.figure > loadedLimit) {
          missed.push(`${what}: ${hundredths(toGateway.figure)} times the CPU time without, limit ${loadedLimit}`);
        }
        return [
          [
            what,
            formatRange(cpuUs, tenths),
            formatRange(ratio, hundredths),
            bold(formatRange(toGateway, hundredths), isLimited),
            isLimited ? loadedLimit.toFixed(2) : '',
          ],
        ];
      }),
    ),
  );
}

/** Returns the tables of response times; adds missed limits to `missed`. */
export function latencyTables({ single, paced }: LatencyFigures, missed: string[]): string {
  const singleRows = single.map(({ case: { title, method }, p50Ms }) => {
    const time = (name: 'relay' | 'nginx' | 'gateway') => p50Ms.get(name) ?? Number.NaN;
    const added = time('gateway') - time('nginx');
    const { aim, limit } = singleLimitsMs[method === 'list' ? 'list' : 'call'];
    if (added > limit) missed.push(`${title}: p50 of ${thousandths(added)} ms above nginx's, limit ${limit} ms`);
    const cells = [time('relay'), time('nginx'), time('gateway'), added];
    return [title, ...cells.map((ms) => (Number.isNaN(ms) ? '' : thousandths(ms))), String(aim), String(limit)];
  });
  const pacedRows = paced.map(({ contender, p50Ms, p99Ms, ratio }) => {
    const own = contender === 'gateway';
    if (own && ratio.median > pacedLimit) {
      missed.push(`steady rate: p99 of ${hundredths(ratio.median)} times the relay's, limit ${pacedLimit}`);
    }
    return [
      bold(contender, own),
      formatRange(p50Ms, thousandths),
      formatRange(p99Ms, thousandths),
      bold(formatRange(ratio, hundredths), own),
      own ? pacedLimit.toFixed(2) : '',
    ];
  });
  return [
    table(['single caller, p50 ms', 'relay', 'nginx', 'gateway', 'gateway - nginx', 'aim', 'limit'], singleRows),
    table(
      [`${whole(pacedRate)} tools/call per second`, 'p50 ms', 'p99 ms', 'p99 relative to the relay', 'limit'],
      pacedRows,
    ),
  ].join('\n\n');
}

/** Returns the table of memory; adds missed limits to `missed`. */
export function memoryTable({ resident, live }: MemoryFigures, missed: string[]): string {
  const { responses, megabytes, megabytesPerSecond } = slowReader;
  const row = (what: string, { first, peak }: MemoryFigures['resident'], limit: number) => {
    const growth = peak - first;
    if (growth > limit)
      missed.push(`memory, ${what}: ${tenths(growth)} MB above the first response, limit ${limit} MB`);
    return [what, tenths(first), tenths(peak), bold(tenths(growth), true), String(limit)];
  };
  const title = `${responses} responses of ${megabytes} MB, read at ${megabytesPerSecond} MB/s`;
  return table(
    [title, 'MB after the first', 'MB at most afterwards', 'growth', 'limit'],
    [row('RSS', resident, memoryLimitsMB.peak), row('live heap and buffers', live, memoryLimitsMB.live)],
  );
}

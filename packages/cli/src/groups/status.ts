import type { CallSeries, FilterMetrics, TimeSeriesGrouping, TimeSeriesResponse } from '@sluice/contract';
import { unwrap } from '@sluice/contract/client';
import { CALL_CAUSES, TIME_SERIES_GROUPINGS } from '@sluice/contract/values';
import { isJsonObject } from '@sluice/protocol/json/parse';
import { Command, Option } from 'commander';
import type { Context } from '../context.ts';

/** `sluice health`: checks the health of the service; the exit code is 1 if it is unreachable. */
export function healthCommand(context: Context): Command {
  return new Command('health').description('Check service health').action(async () => {
    const client = await context.connect();
    const status = await unwrap(client.GET('/healthz'));
    context.output().done(status, status.status);
  });
}

/** `sluice statistics`: shows the number of entries in all namespaces. */
export function statisticsCommand(context: Context): Command {
  return new Command('statistics').description('Show the number of entries in all namespaces').action(async () => {
    const client = await context.connect();
    context.output().show(await unwrap(client.GET('/api/v1/management/statistics')));
  });
}

/** `sluice metrics`: a row per filter, then all other nonzero counters. */
export function metricsCommand(context: Context): Command {
  return new Command('metrics').description('Show metrics').action(async () => {
    const client = await context.connect();
    const found = await unwrap(client.GET('/api/v1/metrics'));
    const output = context.output();
    if (output.isStructured) return output.payload(found);
    const { filters, ...others } = found;
    output.list(
      Object.entries<FilterMetrics>(filters),
      [
        { title: 'FILTER', value: ([name]) => name },
        { title: 'CONTINUE', value: ([, counters]) => JSON.stringify(counters.requests_continue) },
        { title: 'REJECT', value: ([, counters]) => JSON.stringify(counters.requests_reject) },
        { title: 'OTHER', value: ([, counters]) => JSON.stringify(counters.requests_other) },
        { title: 'ERRORS', value: ([, counters]) => JSON.stringify(counters.errors) },
        { title: 'MEASURED', value: ([, { duration }]) => JSON.stringify(duration.count) },
        { title: 'TOTAL MS', value: ([, { duration }]) => JSON.stringify(duration.total_ms) },
        { title: 'AVERAGE MS', value: ([, { duration }]) => JSON.stringify(duration.avg_ms) },
      ],
      'no filters',
    );
    const counted = nonZeroCounters(others, []);
    if (counted.length === 0) return;
    context.terminal.stdout.write('\n');
    output.list(
      counted,
      [
        { title: 'COUNTER', value: ({ name }) => name },
        { title: 'VALUE', value: ({ value }) => value },
      ],
      'nothing else',
    );
  });
}

/** Returns all nonzero numbers with their paths: `pipeline.trigger_matches`. */
function nonZeroCounters(value: unknown, path: readonly string[]): { readonly name: string; readonly value: string }[] {
  if (isJsonObject(value))
    return Object.entries(value).flatMap(([name, member]) => nonZeroCounters(member, [...path, name]));
  // Texts, such as the message of the latest failure, are no counters.
  return value === 0 || typeof value === 'string' ? [] : [{ name: path.join('.'), value: JSON.stringify(value) }];
}

interface TimeSeriesOptions {
  readonly since?: string;
  readonly step?: string;
  readonly by?: TimeSeriesGrouping;
}

/** `sluice time-series`: a row per step or, with `--by`, a row per group. */
export function timeSeriesCommand(context: Context): Command {
  return new Command('time-series')
    .description('Show calls by outcome, latencies, completions and memory of the last hour')
    .option('--since <time>', 'Begin: an ISO 8601 time, or a duration before now such as 15m (default: 1h)')
    .option('--step <duration>', 'Duration of a step: a multiple of 10s, up to 1h (default: 1m)')
    .addOption(
      new Option('--by <group>', 'One row per group, with the sums of all steps').choices(TIME_SERIES_GROUPINGS),
    )
    .addHelpText(
      'after',
      `
Examples:
  sluice time-series --since 10m
  sluice time-series --by tool`,
    )
    .action(async ({ since, step = '1m', by }: TimeSeriesOptions) => {
      const client = await context.connect();
      const found = await unwrap(client.GET('/api/v1/time-series', { params: { query: { since, step, by } } }));
      const output = context.output();
      if (output.isStructured) return output.payload(found);
      if (by === undefined) return output.list(stepsOf(found), STEP_COLUMNS, 'no time series');
      output.list(found.series, GROUP_COLUMNS, 'no calls');
    });
}

/** One step of the series of all calls, with the process. */
interface Step {
  readonly time: string;
  /** Values in the order of the columns after the time. */
  readonly values: readonly (number | null | undefined)[];
}

function stepsOf({ since, step, service, series: [all] }: TimeSeriesResponse): Step[] {
  return service.completions.map((completions, at) => ({
    time: new Date(Date.parse(since) + at * step * 1000).toISOString(),
    values: [
      all?.calls[at] ?? 0,
      ...CALL_CAUSES.map(({ member }) => all?.[member][at] ?? 0),
      all?.p50_ms[at],
      all?.p95_ms[at],
      completions,
      service.event_loop_delay_ms[at],
      mebibytes(service.rss_bytes[at]),
    ],
  }));
}

function mebibytes(bytes: number | null | undefined): number | undefined {
  return bytes === null || bytes === undefined ? undefined : Math.round(bytes / 1024 / 1024);
}

const CAUSE_TITLES = CALL_CAUSES.map(({ title }) => title.toUpperCase());

const STEP_COLUMNS = [
  { title: 'TIME', value: ({ time }: Step) => time },
  ...['CALLS', ...CAUSE_TITLES, 'P50 MS', 'P95 MS', 'COMPLETIONS', 'LOOP DELAY MS', 'MEMORY MIB'].map((title, at) => ({
    title,
    value: ({ values }: Step) => String(values[at] ?? '-'),
  })),
];

const GROUP_COLUMNS = [
  { title: 'GROUP', value: ({ labels }: CallSeries) => nameOfGroup(labels), cut: 'never' as const },
  { title: 'CALLS', value: ({ calls }: CallSeries) => String(sum(calls)) },
  ...CALL_CAUSES.map(({ member }, at) => ({
    title: CAUSE_TITLES[at] ?? member,
    value: (series: CallSeries) => String(sum(series[member])),
  })),
  { title: 'LARGEST P95 MS', value: ({ p95_ms }: CallSeries) => String(largest(p95_ms) ?? '-') },
];

function nameOfGroup({ other, ...labels }: CallSeries['labels']): string {
  if (other) return '(other)';
  return Object.values(labels).join(' ');
}

function sum(counts: readonly number[]): number {
  return counts.reduce((total, count) => total + count, 0);
}

function largest(values: readonly (number | null)[]): number | undefined {
  return values.reduce<number | undefined>(
    (most, value) => (value !== null && value > (most ?? 0) ? value : most),
    undefined,
  );
}

/** `sluice replicas` (docs/replicas.md). */
export function replicasCommand(context: Context): Command {
  return new Command('replicas').description('List the replicas that share the database').action(async () => {
    const client = await context.connect();
    context.output().list(
      await unwrap(client.GET('/api/v1/replicas')),
      [
        { title: 'ID', value: ({ id }) => id, cut: 'never' },
        { title: 'VERSION', value: ({ version }) => version },
        { title: 'STARTED', value: ({ startedAt }) => startedAt },
        { title: 'STATE', value: ({ live, self }) => `${live ? 'live' : 'gone'}${self ? ' (answered)' : ''}` },
        { title: 'CPU', value: ({ load, live }) => (live ? `${Math.round(load * 100)} %` : '') },
        { title: 'LAG', value: ({ lag }) => String(lag) },
        { title: 'FORWARDS', value: ({ forwards }) => String(forwards) },
      ],
      'no replicas: this service has a registry of its own',
    );
  });
}

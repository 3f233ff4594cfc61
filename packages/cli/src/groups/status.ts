import type { FilterMetrics } from '@sluice/contract';
import { unwrap } from '@sluice/contract/client';
import { isJsonObject } from '@sluice/protocol/json/parse';
import { Command } from 'commander';
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
  return value === 0 ? [] : [{ name: path.join('.'), value: JSON.stringify(value) }];
}

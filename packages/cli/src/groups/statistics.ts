import { unwrap } from '@sluice/contract/client';
import { Command } from 'commander';
import type { Context } from '../context.ts';

/** `sluice statistics`: how much is served, over all namespaces. */
export function statisticsCommand(context: Context): Command {
  return new Command('statistics').description('Show the number of entries in all namespaces').action(async () => {
    const client = await context.connect();
    context.output().show(await unwrap(client.GET('/api/v1/management/statistics')));
  });
}

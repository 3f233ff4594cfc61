import { unwrap } from '@sluice/contract/client';
import { Command } from 'commander';
import type { Context } from '../context.ts';

/** `sluice health`: whether the service lives. The exit code says it too. */
export function healthCommand(context: Context): Command {
  return new Command('health').description('Check service health').action(async () => {
    const client = await context.connect();
    const status = await unwrap(client.GET('/healthz'));
    context.output().done(status, status.status);
  });
}

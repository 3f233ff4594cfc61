import { unwrap } from '@sluice/contract/client';
import { Command } from 'commander';
import type { Context } from '../context.ts';
import { validated } from '../files/document.ts';
import { sanitizeLine } from '../terminal/text.ts';

/** `sluice access`: who may use the service (docs/identity.md). */
export function accessCommand(context: Context): Command {
  return new Command('access')
    .description('Block principals, keys and forwards')
    .addCommand(blockCommand(context))
    .addCommand(unblockCommand(context))
    .addCommand(blocksCommand(context));
}

interface BlockOptions {
  readonly for?: string;
  readonly reason?: string;
  readonly allowLockOut?: boolean;
}

const ID = 'ID of a principal or key, or forward:<name>';

function blockCommand(context: Context): Command {
  return new Command('block')
    .description('Block a principal, key or forward now')
    .argument('<id>', ID)
    .option('--for <duration>', 'For how long, such as 30m, 1h or 7d (default: until it is unblocked)')
    .option('--reason <text>', 'Why, for other administrators')
    .option('--allow-lock-out', 'Also if the ID is that of the caller')
    .addHelpText(
      'after',
      `
Every request of the principal gets 401, and its sessions, streams, tasks and calls end, also upstream.
A blocked forward is unknown to clients. The command returns when that has happened at all replicas.

Examples:
  sluice access block corp/ann --for 1h --reason "laptop stolen"
  sluice access block keys/nightly-report
  sluice access block forward:crm`,
    )
    .action(async (id: string, { for: duration, reason, allowLockOut }: BlockOptions) => {
      const body = await validated(({ blockInput }) => blockInput, { for: duration, reason }, 'block');
      const client = await context.connect();
      const params = { path: { id }, query: { lock_out: allowLockOut ? ('allow' as const) : undefined } };
      const call = client.PUT('/api/v1/blocks/{id}', { params, body });
      const block = await unwrap(call);
      const { data } = await call;
      if (data && 'unconfirmed' in data) {
        const replicas = sanitizeLine(String(data.unconfirmed));
        context.terminal.stderr.write(`sluice: replicas that may not have applied it yet: ${replicas}\n`);
      }
      const until = block.until === undefined ? '' : ` until ${block.until}`;
      context.output().done(block, `blocked ${sanitizeLine(block.id)}${until}`);
    });
}

function unblockCommand(context: Context): Command {
  return new Command('unblock')
    .description('Unblock a principal, key or forward')
    .argument('<id>', ID)
    .action(async (id: string) => {
      const client = await context.connect();
      const result = await unwrap(client.DELETE('/api/v1/blocks/{id}', { params: { path: { id } } }));
      context.output().done(result, `unblocked ${sanitizeLine(result.removed)}`);
    });
}

function blocksCommand(context: Context): Command {
  return new Command('blocks').description('List what is blocked').action(async () => {
    const client = await context.connect();
    context.output().list(
      await unwrap(client.GET('/api/v1/blocks')),
      [
        { title: 'ID', value: ({ id }) => id, cut: 'never' },
        { title: 'SINCE', value: ({ since }) => since },
        { title: 'UNTIL', value: ({ until = '-' }) => until },
        { title: 'BY', value: ({ by = '-' }) => by },
        { title: 'REASON', value: ({ reason = '' }) => reason, cut: 'first' },
      ],
      'nothing is blocked',
    );
  });
}

import { unwrap } from '@sluice/contract/client';
import { Command } from 'commander';
import type { Context } from '../context.ts';
import { parsePositive } from '../entries/list-pages.ts';

/** `sluice interactions`. */
export function interactionsCommand(context: Context): Command {
  return new Command('interactions')
    .description('Manage recorded chat completions')
    .addCommand(listCommand(context))
    .addCommand(clearCommand(context));
}

interface ListOptions {
  readonly conversation?: string;
  readonly completion?: string;
  readonly limit?: string;
  /** False with `--no-bodies`. */
  readonly bodies: boolean;
}

function listCommand(context: Context): Command {
  return new Command('list')
    .description('List recorded interactions, oldest first')
    .option('--conversation <id>', 'Only interactions of this conversation')
    .option('--completion <id>', 'Only the interaction with this completion ID')
    .option('--limit <n>', 'Number of newest interactions to list', parsePositive)
    .option('--no-bodies', 'Omit request and response bodies (with --output json or yaml)')
    .addHelpText(
      'after',
      `
Example:
  sluice interactions list --conversation c-17 --output json`,
    )
    .action(async ({ conversation, completion, limit, bodies }: ListOptions) => {
      const client = await context.connect();
      const output = context.output();
      const query = {
        conversation_id: conversation,
        completion_id: completion,
        limit,
        // The table does not show bodies.
        ...(bodies && output.isStructured ? {} : { bodies: 'false' as const }),
      };
      output.list(
        await unwrap(client.GET('/api/v1/interactions', { params: { query } })),
        [
          { title: 'TIME', value: ({ epoch_ms }) => new Date(epoch_ms).toISOString() },
          { title: 'STATUS', value: ({ status_code }) => JSON.stringify(status_code) },
          { title: 'MS', value: ({ duration_ms }) => JSON.stringify(duration_ms) },
          { title: 'MODEL', value: ({ model = '-' }) => model },
          { title: 'CONVERSATION', value: ({ conversation_id = '-' }) => conversation_id, cut: 'never' },
          { title: 'COMPLETION', value: ({ completion_id = '-' }) => completion_id, cut: 'never' },
          { title: 'PATH', value: ({ path }) => path, cut: 'first' },
        ],
        'no interactions',
        { name: ({ completion_id }) => completion_id },
      );
    });
}

function clearCommand(context: Context): Command {
  return new Command('clear').description('Delete all recorded interactions').action(async () => {
    const client = await context.connect();
    context.output().done(await unwrap(client.DELETE('/api/v1/interactions')), 'deleted all recorded interactions');
  });
}

import { payload } from '@sluice/contract/client';
import { Command, InvalidArgumentError } from 'commander';
import type { Context } from '../context.ts';

/** `sluice interactions` (decisions 1.8). */
export function interactions(context: Context): Command {
  return new Command('interactions')
    .description('completions that were asked for through the inference listener')
    .addCommand(list(context))
    .addCommand(clear(context));
}

interface ListOptions {
  readonly conversation?: string;
  readonly completion?: string;
  readonly limit?: string;
  /** False with `--no-bodies`. */
  readonly bodies: boolean;
}

function list(context: Context): Command {
  return new Command('list')
    .description('list the interactions that are kept, oldest first')
    .option('--conversation <id>', 'only those of this conversation')
    .option('--completion <id>', 'only the one whose answer has this id')
    .option('--limit <n>', 'only so many, the newest', positive)
    .option('--no-bodies', 'with --output json: without what was asked and answered')
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
        // The table shows none.
        ...(bodies && output.format === 'json' ? {} : { bodies: 'false' as const }),
      };
      output.list(
        await payload(client.GET('/api/v1/interactions', { params: { query } })),
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
      );
    });
}

function positive(text: string): string {
  if (!/^[1-9][0-9]*$/.test(text)) throw new InvalidArgumentError('It must be a whole number from 1.');
  return text;
}

function clear(context: Context): Command {
  return new Command('clear').description('forget all interactions').action(async () => {
    const client = await context.connect();
    context
      .output()
      .done(await payload(client.DELETE('/api/v1/interactions')), 'cleared: no interaction is kept any more');
  });
}

import { unwrap, unwrapPage } from '@sluice/contract/client';
import { TASK_FILTERS } from '@sluice/contract/values';
import { Command, Option } from 'commander';
import type { Context } from '../context.ts';
import { listPages, noteOmitted, type PageOptions, parsePositive } from '../entries/list-pages.ts';
import { sanitizeLine } from '../terminal/text.ts';

/** `sluice tasks`: long calls (docs/tasks.md). */
export function tasksCommand(context: Context): Command {
  return new Command('tasks')
    .description('Manage tasks (long tool calls)')
    .addCommand(listCommand(context))
    .addCommand(showCommand(context))
    .addCommand(cancelCommand(context));
}

interface ListOptions extends PageOptions {
  readonly namespace?: string;
  readonly forward?: string;
  readonly tool?: string;
  readonly user?: string;
  readonly state?: (typeof TASK_FILTERS)[number];
}

function listCommand(context: Context): Command {
  const command = new Command('list')
    .description('List tasks, oldest first')
    .option('-N, --namespace <namespace>', 'Only tasks in this namespace')
    .option('--forward <forward>', 'Only tasks of this forward')
    .option('--tool <tool>', 'Only tasks of this tool')
    .option('--user <user>', 'Only tasks of this user')
    .addOption(new Option('--state <state>', 'Only tasks in this state (default: open)').choices(TASK_FILTERS))
    .option('--limit <n>', 'Number of tasks to list', (text: string) => Number(parsePositive(text)))
    .option('--search <text>', 'Only tasks with this text in the ID, tool, forward, user or message, in any case')
    .addHelpText(
      'after',
      `
Examples:
  sluice tasks list --forward builds
  sluice tasks list --state failed --output json`,
    );
  return command.action(async ({ limit, search, ...filters }: ListOptions) => {
    const client = await context.connect();
    const listed = await listPages({ limit, search }, (query) =>
      unwrapPage(client.GET('/api/v1/tasks', { params: { query: { ...filters, ...query } } })),
    );
    context.output().list(
      listed.rows,
      [
        { title: 'ID', value: ({ id }) => id, cut: 'never' },
        { title: 'CREATED', value: ({ createdAt }) => createdAt, cut: 'never' },
        { title: 'STATUS', value: ({ status }) => status },
        { title: 'NAMESPACE', value: ({ namespace }) => namespace },
        { title: 'TOOL', value: ({ tool }) => tool },
        { title: 'FORWARD', value: ({ forward = '-' }) => forward },
        { title: 'USER', value: ({ user = '-' }) => user },
        { title: 'MESSAGE', value: ({ statusMessage = '' }) => statusMessage, cut: 'first' },
      ],
      'no tasks',
    );
    noteOmitted(context, listed, 'tasks');
  });
}

function showCommand(context: Context): Command {
  return new Command('show')
    .description('Show a task')
    .argument('<id>', 'ID of the task')
    .action(async (id: string) => {
      const client = await context.connect();
      context.output().show(await unwrap(client.GET('/api/v1/tasks/{id}', { params: { path: { id } } })));
    });
}

function cancelCommand(context: Context): Command {
  return new Command('cancel')
    .description('Cancel a task')
    .argument('<id>', 'ID of the task')
    .action(async (id: string) => {
      const client = await context.connect();
      const task = await unwrap(client.POST('/api/v1/tasks/{id}/cancel', { params: { path: { id } } }));
      context.output().done(task, `canceled task ${sanitizeLine(task.id)} of tool ${sanitizeLine(task.tool)}`);
    });
}

import { namespaceInput } from '@sluice/contract';
import { unwrap } from '@sluice/contract/client';
import { Command } from 'commander';
import type { Context } from '../context.ts';
import { showCommand } from '../entries/commands.ts';
import { NAMESPACE_CALLS } from '../entries/entry-calls.ts';
import { labelCommand } from '../entries/label-command.ts';
import { collectPair, labelText } from '../entries/labels.ts';
import { addName, type Named, nameOf } from '../entries/named.ts';
import { checked } from '../files/checked.ts';

/** `sluice namespaces` (decisions 1.8). */
export function namespaces(context: Context): Command {
  return new Command('namespaces')
    .description('Manage namespaces (one MCP endpoint each)')
    .addCommand(list(context))
    .addCommand(showCommand(context, NAMESPACE_CALLS))
    .addCommand(create(context))
    .addCommand(remove(context))
    .addCommand(labelCommand(context, NAMESPACE_CALLS));
}

function list(context: Context): Command {
  return new Command('list').description('List namespaces').action(async () => {
    const client = await context.connect();
    context.output().list(
      await unwrap(client.GET('/api/v1/namespaces')),
      [
        { title: 'NAME', value: ({ name }) => name, cut: 'never' },
        { title: 'LABELS', value: ({ labels }) => labelText(labels) || '-' },
      ],
      'no namespaces',
    );
  });
}

function create(context: Context): Command {
  return addName(new Command('create'), 'namespace')
    .description('Create a namespace (no-op if it already exists)')
    .option('-l, --label <key=value>', 'Label; may be repeated', collectPair)
    .action(async (argument: string | undefined, options: Named & { readonly label?: Record<string, string> }) => {
      const name = nameOf(argument, options, 'namespace');
      const { label: labels } = options;
      const body = checked(namespaceInput, { name, labels }, 'namespace');
      const client = await context.connect();
      const call = client.POST('/api/v1/namespaces', { body });
      const created = await unwrap(call);
      const { response } = await call;
      const sentence = response.status === 201 ? `created namespace ${name}` : `namespace ${name} exists already`;
      context.output().done(created, sentence);
      if (created.name === 'public') {
        context.terminal.stderr.write('warning: authenticating proxies are set up to let the path /public/ pass\n');
      }
    });
}

function remove(context: Context): Command {
  return addName(new Command('delete'), 'namespace')
    .description('Delete a namespace')
    .option('--cascade', 'Delete all tools, resources, prompts and forwards in it too')
    .action(async (argument: string | undefined, options: Named & { readonly cascade?: true }) => {
      const name = nameOf(argument, options, 'namespace');
      const { cascade } = options;
      const client = await context.connect();
      const removed = await unwrap(
        client.DELETE('/api/v1/namespaces/{name}', {
          params: { path: { name }, query: { ...(cascade && { cascade: 'true' as const }) } },
        }),
      );
      context.output().done(removed, `deleted namespace ${removed.removed}`);
    });
}

import type { Tool } from '@sluice/contract';
import { payload } from '@sluice/contract/client';
import { Command } from 'commander';
import type { Context } from '../context.ts';
import { removeCommand, showCommand } from '../entries/commands.ts';
import { type EditOptions, edit } from '../entries/edit.ts';
import { TOOL } from '../entries/kinds.ts';
import { labelCommand } from '../entries/label-command.ts';
import { addListOptions, type ListOptions, listQuery, shadowedColumn } from '../entries/listing.ts';
import { addSelection } from '../entries/selection.ts';
import { addToolFields, hasToolFields, type ToolFields, withToolFields } from '../entries/tool-fields.ts';
import { importCommand } from '../import/import-command.ts';

/** `sluice tools` (decisions 1.8). */
export function tools(context: Context): Command {
  return new Command('tools')
    .description('what agents can call')
    .addCommand(list(context))
    .addCommand(showCommand(context, TOOL))
    .addCommand(add(context))
    .addCommand(editCommand(context))
    .addCommand(removeCommand(context, TOOL))
    .addCommand(importCommand(context))
    .addCommand(labelCommand(context, TOOL));
}

function list(context: Context): Command {
  return addListOptions(new Command('list').description('list the tools'), 'tools').action(
    async (options: ListOptions) => {
      const client = await context.connect();
      const found = await payload(client.GET('/api/v1/tools', { params: { query: listQuery(options) } }));
      context
        .output()
        .list(
          found,
          [
            { title: 'NAME', value: ({ name }) => name },
            { title: 'NAMESPACE', value: ({ namespace }) => namespace },
            { title: 'TYPE', value: ({ toolType }) => toolType },
            { title: 'FORWARD', value: ({ forward = '-' }) => forward },
            ...shadowedColumn<Pick<Tool, 'shadowed'>>(options),
            { title: 'DESCRIPTION', value: ({ description }) => description },
          ],
          'no tools',
        );
    },
  );
}

interface AddOptions extends ToolFields {
  readonly namespace?: string;
}

function add(context: Context): Command {
  return addToolFields(new Command('add').description('register a tool by hand'))
    .option('-N, --namespace <namespace>', 'the namespace to put it in')
    .addHelpText(
      'after',
      `
Example:
  sluice tools add -n weather -d "Weather of a city" -u http://127.0.0.1:3001/mcp --type mcp-forward \\
    -p "city:string,Name of the city" -r city`,
    )
    .action(async ({ namespace, ...fields }: AddOptions) => {
      const body = await withToolFields(namespace === undefined ? {} : { namespace }, fields, context.terminal);
      const added = await TOOL.create(await context.connect(), body);
      context.output().done(added, `added tool ${added.name} in ${added.namespace}`);
    });
}

interface ToolEditOptions extends EditOptions, ToolFields {
  readonly moveTo?: string;
}

function editCommand(context: Context): Command {
  const command = new Command('edit')
    .description('change a tool: by the fields given, by a file, or in your editor')
    .argument('<tool>', 'its name');
  // The uri is a field here: tools are not told apart by it.
  return addSelection(addToolFields(command), 'tool')
    .option('--move-to <namespace>', 'another namespace to put it in')
    .option('-f, --file <file>', 'the whole tool (JSON or YAML), "-" for standard input')
    .addHelpText(
      'after',
      `
Without fields and --file it opens in $VISUAL or $EDITOR. What is changed of a discovered tool stays over discoveries.

Example:
  sluice tools edit echo --name say --description "Repeats a text"`,
    )
    .action((name: string, { namespace, file, moveTo, ...fields }: ToolEditOptions) => {
      const given = hasToolFields(fields) || moveTo !== undefined;
      return edit(
        context,
        TOOL,
        name,
        { namespace, ...(file !== undefined && { file }) },
        given
          ? (tool) =>
              withToolFields(moveTo === undefined ? tool : { ...tool, namespace: moveTo }, fields, context.terminal)
          : undefined,
      );
    });
}

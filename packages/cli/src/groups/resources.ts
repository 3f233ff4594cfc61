import type { Resource } from '@sluice/contract';
import { payload } from '@sluice/contract/client';
import { Command } from 'commander';
import type { Context } from '../context.ts';
import { removeCommand, showCommand } from '../entries/commands.ts';
import { type EditOptions, edit } from '../entries/edit.ts';
import { RESOURCE } from '../entries/kinds.ts';
import { labelCommand } from '../entries/label-command.ts';
import { collectPair } from '../entries/labels.ts';
import { addListOptions, type ListOptions, listQuery, shadowedColumn } from '../entries/listing.ts';
import { addSelection } from '../entries/selection.ts';

/** `sluice resources` (decisions 1.8). */
export function resources(context: Context): Command {
  return new Command('resources')
    .description('what agents can read')
    .addCommand(list(context))
    .addCommand(showCommand(context, RESOURCE))
    .addCommand(expose(context))
    .addCommand(editCommand(context))
    .addCommand(removeCommand(context, RESOURCE))
    .addCommand(labelCommand(context, RESOURCE));
}

function list(context: Context): Command {
  const command = new Command('list').description('list the resources and resource templates');
  return addListOptions(command, 'resources').action(async (options: ListOptions) => {
    const client = await context.connect();
    const found = await payload(client.GET('/api/v1/resources', { params: { query: listQuery(options) } }));
    context
      .output()
      .list(
        found,
        [
          { title: 'NAME', value: ({ name }) => name },
          { title: 'NAMESPACE', value: ({ namespace }) => namespace },
          { title: 'LOCATION', value: ({ location }) => location },
          { title: 'TYPE', value: ({ type }) => type },
          { title: 'FORWARD', value: ({ forward = '-' }) => forward },
          ...shadowedColumn<Pick<Resource, 'shadowed'>>(options),
          { title: 'DESCRIPTION', value: ({ description }) => description },
        ],
        'no resources',
      );
  });
}

interface Fields {
  readonly location?: string;
  readonly type?: string;
  readonly name?: string;
  readonly description?: string;
  readonly mimeType?: string;
  readonly param?: Readonly<Record<string, string>>;
  readonly label?: Readonly<Record<string, string>>;
}

function addFields(command: Command): Command {
  return command
    .option('-n, --name <name>', 'its name')
    .option('--location <uri>', 'its uri, as agents read it')
    .option('--type <type>', 'its type: what a service entry is named for')
    .option('-d, --description <text>', 'what it is, for agents')
    .option('--mimeType, --mime-type <type>', 'its media type')
    .option('--param <key=value>', 'a parameter for its capability service; may be repeated', collectPair)
    .option('-l, --label <key=value>', 'a label; may be repeated', collectPair);
}

/** A resource's body: the given one with the fields over it. Labels are added to what is there, parameters replace it. */
function withFields(resource: Readonly<Record<string, unknown>>, { param, label, ...fields }: Fields): object {
  const given = Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
  const labels = typeof resource.labels === 'object' ? resource.labels : {};
  return {
    ...resource,
    ...given,
    ...(param && { params: Object.entries(param).map(([name, value]) => ({ name, value })) }),
    ...(label && { labels: { ...labels, ...label } }),
  };
}

function expose(context: Context): Command {
  return addFields(new Command('expose').description('register a resource by hand'))
    .option('-N, --namespace <namespace>', 'the namespace to put it in')
    .addHelpText(
      'after',
      `
Example:
  sluice resources expose --name handbook --location docs://handbook --type documents --mime-type text/markdown`,
    )
    .action(async ({ namespace, ...fields }: Fields & { readonly namespace?: string }) => {
      const client = await context.connect();
      const added = await RESOURCE.create(client, withFields(namespace === undefined ? {} : { namespace }, fields));
      context.output().done(added, `added resource ${added.name} in ${added.namespace}`);
    });
}

interface ResourceEditOptions extends EditOptions, Fields {
  readonly moveTo?: string;
}

function editCommand(context: Context): Command {
  const command = new Command('edit')
    .description('change a resource: by the fields given, by a file, or in your editor')
    .argument('<resource>', 'its name');
  return addSelection(addFields(command), 'resource')
    .option('--move-to <namespace>', 'another namespace to put it in')
    .option('-f, --file <file>', 'the whole resource (JSON or YAML), "-" for standard input')
    .action((name: string, { namespace, uri, file, moveTo, ...fields }: ResourceEditOptions) => {
      const given = Object.keys(fields).length > 0 || moveTo !== undefined;
      const change = (entry: Readonly<Record<string, unknown>>) =>
        withFields(moveTo === undefined ? entry : { ...entry, namespace: moveTo }, fields);
      return edit(
        context,
        RESOURCE,
        name,
        { namespace, uri, ...(file !== undefined && { file }) },
        given ? change : undefined,
      );
    });
}

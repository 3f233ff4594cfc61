import { Command } from 'commander';
import type { Context } from '../context.ts';
import { removeCommand, showCommand } from './commands.ts';
import { editEntry } from './edit.ts';
import type { EntryKind, ListRow } from './entry-kind.ts';
import { labelCommand } from './label-command.ts';
import { collectKeyValue } from './labels.ts';
import { listCommand } from './list-command.ts';
import { isNewNamespace, NEW_NAMESPACE_NOTE } from './new-namespace.ts';
import { addSelectorOptions, type EntrySelector, parseSelector } from './selection.ts';

/** The group of commands of one kind of entry, such as `sluice tools` (decisions 1.8). */
export function entryGroup<Row extends ListRow, Fields>(context: Context, kind: EntryKind<Row, Fields>): Command {
  return new Command(`${kind.kind}s`)
    .description(kind.description)
    .addCommand(listCommand(context, kind))
    .addCommand(showCommand(context, kind))
    .addCommand(addCommand(context, kind))
    .addCommand(editCommand(context, kind))
    .addCommand(removeCommand(context, kind))
    .addCommand(labelCommand(context, kind));
}

type Body = Readonly<Record<string, unknown>>;

interface LabelOption {
  readonly label?: Readonly<Record<string, string>>;
}

const addLabelOption = (command: Command): Command =>
  command.option('-l, --label <key=value>', 'Label; may be repeated', collectKeyValue);

function addCommand<Row extends ListRow, Fields>(context: Context, kind: EntryKind<Row, Fields>): Command {
  const command = new Command(kind.add).description(`Add a ${kind.kind}`);
  return addLabelOption(kind.addFieldOptions(command))
    .option('-N, --namespace <namespace>', `Namespace of the ${kind.kind}, created if it does not exist`)
    .addHelpText('after', `\n${kind.addHelp}`)
    .action(async (options: Fields & LabelOption & { readonly namespace?: string }) => {
      const { namespace } = options;
      const body = await kind.applyFields(namespace === undefined ? {} : { namespace }, options, context.terminal);
      const client = await context.connect();
      const isNew = await isNewNamespace(client, namespace);
      const added = await kind.create(client, mergeLabels(body, options));
      context
        .output()
        .done(added, `added ${kind.kind} ${added.name} in ${added.namespace}${isNew ? NEW_NAMESPACE_NOTE : ''}`);
    });
}

interface EditOptions extends EntrySelector, LabelOption {
  readonly file?: string;
  readonly moveTo?: string;
}

function editCommand<Row extends ListRow, Fields>(context: Context, kind: EntryKind<Row, Fields>): Command {
  const command = new Command('edit')
    .description(`Edit a ${kind.kind} with options, a file or an editor`)
    .argument(`<${kind.kind}>`, `Name of the ${kind.kind}`);
  addSelectorOptions(addLabelOption(kind.addFieldOptions(command)), kind.kind)
    .option('--move-to <namespace>', `Namespace to move the ${kind.kind} to`)
    .option('-f, --file <file>', `File with the whole ${kind.kind} (JSON or YAML), "-" for standard input`)
    .action((name: string, options: Fields & EditOptions) => {
      const { file, moveTo } = options;
      const selection = parseSelector(options, kind.kind);
      const given = Object.keys(options).some((option) => option !== 'file' && !Object.hasOwn(selection, option));
      const fields = async (entry: Body) => {
        const moved = moveTo === undefined ? entry : { ...entry, namespace: moveTo };
        return mergeLabels(await kind.applyFields(moved, options, context.terminal), options);
      };
      return editEntry(context, kind, name, selection, { file, fields: given ? fields : undefined, moveTo });
    });
  return kind.editHelp === undefined ? command : command.addHelpText('after', `\n${kind.editHelp}`);
}

/** Labels are added to what is there. */
function mergeLabels(body: Body, { label }: LabelOption): Body {
  if (label === undefined) return body;
  return { ...body, labels: { ...(typeof body.labels === 'object' ? body.labels : {}), ...label } };
}

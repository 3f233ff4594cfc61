import type { PageInfo } from '@sluice/contract';
import type { Client } from '@sluice/contract/client';
import { Command } from 'commander';
import type { Context } from '../context.ts';
import type { Column } from '../output/table.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { sanitizeLine } from '../terminal/text.ts';
import { editEntry } from './edit.ts';
import type { EnableApi, EntryApi, EntrySelector } from './entry-api.ts';
import { enableCommand, labelCommand, removeCommand, showCommand } from './entry-commands.ts';
import { addSelectorOptions, collectKeyValue, parseSelector } from './entry-options.ts';
import { addPageOptions, listPages, noteOmitted, type PageOptions, type PageQuery } from './list-pages.ts';
import { isNewNamespace, NEW_NAMESPACE_NOTE, requireNamespace } from './lookup.ts';

/** Columns that every list has. */
export interface ListRow {
  readonly name: string;
  readonly namespace: string;
  readonly forward?: string | undefined;
  readonly shadowed?: true | undefined;
  readonly enabled: boolean;
  readonly description: string;
}

/** Query parameters of a list. */
export interface ListQuery extends PageQuery {
  readonly namespace?: string | undefined;
  readonly include?: 'shadowed';
  readonly only?: 'shadowed';
}

/** What differs between the command groups of the kinds of entries. */
export interface EntryKind<Row extends ListRow, Fields> extends EntryApi, EnableApi {
  readonly kind: EnableApi['kind'];
  /** What they are, for help. */
  readonly description: string;
  readonly list: (
    client: Client,
    query: ListQuery,
  ) => Promise<{ readonly data: readonly Row[]; readonly page?: PageInfo | undefined }>;
  /** Listed entries, when they are more than the plural of the kind. */
  readonly listed?: string;
  /** Additional columns of the list. */
  readonly columns: readonly Column<Row>[];
  /** Adds the field options to `add` and `edit`. Namespace, labels and file are common to all kinds. */
  readonly addFieldOptions: (command: Command) => Command;
  /** Returns the body with the field options applied, except labels. */
  readonly applyFields: (
    entry: Readonly<Record<string, unknown>>,
    fields: Fields,
    terminal: Terminal,
  ) => Promise<Record<string, unknown>> | Record<string, unknown>;
  /** Additional help of `add`. */
  readonly addHelp: string;
  /** Additional help of `edit`. */
  readonly editHelp?: string;
}

interface ListOptions extends PageOptions {
  readonly namespace?: string;
  readonly shadowed?: true;
  readonly onlyShadowed?: true;
}

/** `list`: prints a row per entry. */
function listCommand<Row extends ListRow, Fields>(context: Context, kind: EntryKind<Row, Fields>): Command {
  const plural = `${kind.kind}s`;
  const command = new Command('list')
    .description(`List ${kind.listed ?? plural}`)
    .option('-N, --namespace <namespace>', `Only ${plural} in this namespace`)
    .option('--shadowed', 'Include shadowed entries, whose name or location is taken by an earlier entry')
    .option('--only-shadowed', 'List only shadowed entries');
  return addPageOptions(command, plural)
    .addHelpText('after', `\nExample:\n  sluice ${plural} list --search mail --limit 20`)
    .action(async ({ namespace, shadowed, onlyShadowed, ...pages }: ListOptions) => {
      const client = await context.connect();
      const listed = await listPages(pages, (query) =>
        kind.list(client, {
          namespace,
          ...(shadowed && { include: 'shadowed' }),
          ...(onlyShadowed && { only: 'shadowed' }),
          ...query,
        }),
      );
      const { rows: found } = listed;
      if (found.length === 0) await requireNamespace(client, namespace);
      context.output().list(
        found,
        columnsOf(
          kind,
          shadowed ?? onlyShadowed,
          found.some(({ enabled }) => !enabled),
        ),
        pages.search === undefined ? `no ${plural}` : `no ${plural} match "${sanitizeLine(pages.search)}"`,
      );
      noteOmitted(context, listed, plural);
    });
}

/** Columns show which entries are shadowed, with `shadowed`, and which are disabled, if any is. */
function columnsOf<Row extends ListRow, Fields>(
  kind: EntryKind<Row, Fields>,
  shadowed = false,
  hasDisabled = false,
): Column<Row>[] {
  return [
    { title: 'NAME', value: ({ name }) => name, cut: 'never' },
    { title: 'NAMESPACE', value: ({ namespace }) => namespace, cut: 'never' },
    ...kind.columns,
    { title: 'FORWARD', value: ({ forward = '-' }) => forward },
    ...(hasDisabled ? [{ title: 'ENABLED', value: (row: Row) => (row.enabled ? 'yes' : 'no') }] : []),
    ...(shadowed ? [{ title: 'SHADOWED', value: (row: Row) => (row.shadowed ? 'yes' : '-') }] : []),
    { title: 'DESCRIPTION', value: ({ description }) => description, cut: 'first' },
  ];
}

/** Creates the command group of a kind of entry, such as `sluice tools`. */
export function entryGroup<Row extends ListRow, Fields>(context: Context, kind: EntryKind<Row, Fields>): Command {
  return new Command(`${kind.kind}s`)
    .description(kind.description)
    .addCommand(listCommand(context, kind))
    .addCommand(showCommand(context, kind))
    .addCommand(addCommand(context, kind))
    .addCommand(editCommand(context, kind))
    .addCommand(removeCommand(context, kind))
    .addCommand(enableCommand(context, kind, true))
    .addCommand(enableCommand(context, kind, false))
    .addCommand(labelCommand(context, kind));
}

type Body = Readonly<Record<string, unknown>>;

interface LabelOption {
  readonly label?: Readonly<Record<string, string>>;
}

const addLabelOption = (command: Command): Command =>
  command.option('-l, --label <key=value>', 'Label; may be repeated', collectKeyValue);

function addCommand<Row extends ListRow, Fields>(context: Context, kind: EntryKind<Row, Fields>): Command {
  const command = new Command('add').description(`Add a ${kind.kind}`);
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
      const isField = (option: string) => option !== 'file' && option !== 'dryRun' && !Object.hasOwn(selection, option);
      const given = Object.keys(options).some(isField);
      const fields = async (entry: Body) => {
        const moved = moveTo === undefined ? entry : { ...entry, namespace: moveTo };
        return mergeLabels(await kind.applyFields(moved, options, context.terminal), options);
      };
      return editEntry(context, kind, name, selection, { file, fields: given ? fields : undefined, moveTo });
    });
  return kind.editHelp === undefined ? command : command.addHelpText('after', `\n${kind.editHelp}`);
}

/** New labels are added to the existing ones. */
function mergeLabels(body: Body, { label }: LabelOption): Body {
  if (label === undefined) return body;
  return { ...body, labels: { ...(typeof body.labels === 'object' ? body.labels : {}), ...label } };
}

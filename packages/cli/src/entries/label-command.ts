import { Command } from 'commander';
import type { Context } from '../context.ts';
import { Failure } from '../failure.ts';
import { formatPlace, writableMembers } from './entry.ts';
import type { EntryApi } from './entry-calls.ts';
import { getEntry } from './find-entry.ts';
import { collectKeyValue, formatLabels } from './labels.ts';
import { addSelectorOptions, type EntrySelector, parseSelector } from './selection.ts';

type Labels = Readonly<Record<string, string>>;

/** `label add <name> key=value...` and `label remove <name> key...`: all other labels and members stay. */
export function labelCommand(context: Context, api: Pick<EntryApi, 'kind' | 'get' | 'update'>): Command {
  const change = async (name: string, options: EntrySelector, to: (labels: Labels) => Labels): Promise<void> => {
    const client = await context.connect();
    const selection = parseSelector(options, api.kind);
    const entry = await getEntry(client, api, name, selection);
    const changed = await api.update(client, name, selection, { ...writableMembers(entry), labels: to(entry.labels) });
    context
      .output()
      .done(
        changed,
        `${api.kind} ${changed.name}${formatPlace(changed, 'in')}: ${formatLabels(changed.labels) || 'no labels'}`,
      );
  };
  const add = new Command('add')
    .description(`Set labels of a ${api.kind}`)
    .argument(`<${api.kind}>`, `Name of the ${api.kind}`)
    .argument('<key=value...>', 'Labels to set');
  const remove = new Command('remove')
    .description(`Remove labels from a ${api.kind}`)
    .argument(`<${api.kind}>`, `Name of the ${api.kind}`)
    .argument('<key...>', 'Keys of the labels to remove');
  return new Command('label')
    .description(`Manage the labels of a ${api.kind}`)
    .addCommand(
      addSelectorOptions(add, api.kind).action((name: string, pairs: readonly string[], options: EntrySelector) => {
        const added = pairs.reduce<Labels>((so, pair) => collectKeyValue(pair, so), {});
        return change(name, options, (labels) => ({ ...labels, ...added }));
      }),
    )
    .addCommand(
      addSelectorOptions(remove, api.kind).action((name: string, keys: readonly string[], options: EntrySelector) =>
        change(name, options, (labels) => {
          const missing = keys.find((key) => !Object.hasOwn(labels, key));
          if (missing !== undefined) throw new Failure(`${api.kind} ${name} has no label "${missing}"`);
          return Object.fromEntries(Object.entries(labels).filter(([key]) => !keys.includes(key)));
        }),
      ),
    );
}

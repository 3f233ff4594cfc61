import { Command } from 'commander';
import type { Context } from '../context.ts';
import { Failure } from '../failure.ts';
import { placeOf, writable } from './entry.ts';
import type { EntryCalls } from './entry-calls.ts';
import { findEntry } from './find-entry.ts';
import { collectPair, labelText } from './labels.ts';
import { addSelection, type Selection, selectionOf } from './selection.ts';

type Labels = Readonly<Record<string, string>>;

/** `label add <name> key=value...` and `label remove <name> key...`: all other labels and members stay. */
export function labelCommand(context: Context, calls: Pick<EntryCalls, 'kind' | 'get' | 'update'>): Command {
  const change = async (name: string, options: Selection, to: (labels: Labels) => Labels): Promise<void> => {
    const client = await context.connect();
    const selection = selectionOf(options, calls.kind);
    const entry = await findEntry(client, calls, name, selection);
    const changed = await calls.update(client, name, selection, { ...writable(entry), labels: to(entry.labels) });
    context
      .output()
      .done(
        changed,
        `${calls.kind} ${changed.name}${placeOf(changed, 'in')}: ${labelText(changed.labels) || 'no labels'}`,
      );
  };
  const add = new Command('add')
    .description(`Set labels of a ${calls.kind}`)
    .argument(`<${calls.kind}>`, `Name of the ${calls.kind}`)
    .argument('<key=value...>', 'Labels to set');
  const remove = new Command('remove')
    .description(`Remove labels from a ${calls.kind}`)
    .argument(`<${calls.kind}>`, `Name of the ${calls.kind}`)
    .argument('<key...>', 'Keys of the labels to remove');
  return new Command('label')
    .description(`Manage the labels of a ${calls.kind}`)
    .addCommand(
      addSelection(add, calls.kind).action((name: string, pairs: readonly string[], options: Selection) => {
        const added = pairs.reduce<Labels>((so, pair) => collectPair(pair, so), {});
        return change(name, options, (labels) => ({ ...labels, ...added }));
      }),
    )
    .addCommand(
      addSelection(remove, calls.kind).action((name: string, keys: readonly string[], options: Selection) =>
        change(name, options, (labels) => {
          const missing = keys.find((key) => !Object.hasOwn(labels, key));
          if (missing !== undefined) throw new Failure(`${calls.kind} ${name} has no label "${missing}"`);
          return Object.fromEntries(Object.entries(labels).filter(([key]) => !keys.includes(key)));
        }),
      ),
    );
}

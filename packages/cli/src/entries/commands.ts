import { Command } from 'commander';
import type { Context } from '../context.ts';
import type { EntryKind, Selection } from './kind.ts';
import { addSelection, selectionOf } from './selection.ts';

/** `show <name>`: one entry with all its members. */
export function showCommand(context: Context, kind: EntryKind): Command {
  const command = new Command('show').description(`show one ${kind.kind}`).argument(`<${kind.kind}>`, 'its name');
  return addSelection(command, kind.kind).action(async (name: string, options: Selection) => {
    const client = await context.connect();
    context.output().show(await kind.get(client, name, selectionOf(options)));
  });
}

/** `remove <name>`. */
export function removeCommand(context: Context, kind: EntryKind): Command {
  const command = new Command('remove').description(`remove a ${kind.kind}`).argument(`<${kind.kind}>`, 'its name');
  return addSelection(command, kind.kind).action(async (name: string, options: Selection) => {
    const client = await context.connect();
    const removed = await kind.remove(client, name, selectionOf(options));
    context.output().done(removed, `removed ${kind.kind} ${removed.removed}`);
  });
}

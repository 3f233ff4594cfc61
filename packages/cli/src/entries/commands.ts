import { Command } from 'commander';
import type { Context } from '../context.ts';
import type { EntryCalls } from './entry-calls.ts';
import { addSelection, type Selection, selectionOf } from './selection.ts';

/** `show <name>`: one entry with all its members. */
export function showCommand(context: Context, calls: EntryCalls): Command {
  const command = new Command('show').description(`show one ${calls.kind}`).argument(`<${calls.kind}>`, 'its name');
  return addSelection(command, calls.kind).action(async (name: string, options: Selection) => {
    const client = await context.connect();
    context.output().show(await calls.get(client, name, selectionOf(options, calls.kind)));
  });
}

/** `remove <name>`. */
export function removeCommand(context: Context, calls: EntryCalls): Command {
  const command = new Command('remove').description(`remove a ${calls.kind}`).argument(`<${calls.kind}>`, 'its name');
  return addSelection(command, calls.kind).action(async (name: string, options: Selection) => {
    const client = await context.connect();
    const removed = await calls.remove(client, name, selectionOf(options, calls.kind));
    context.output().done(removed, `removed ${calls.kind} ${removed.removed}`);
  });
}

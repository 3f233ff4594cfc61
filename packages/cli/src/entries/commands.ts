import { Command } from 'commander';
import type { Context } from '../context.ts';
import { harmlessLine } from '../terminal/harmless.ts';
import { placeOf } from './entry.ts';
import type { EntryCalls } from './entry-calls.ts';
import { findEntry } from './find-entry.ts';
import { addName, type Named, nameOf } from './named.ts';
import { addSelection, type Selection, selectionOf } from './selection.ts';

/** `show <name>`: one entry with all its members. */
export function showCommand(context: Context, calls: Pick<EntryCalls, 'kind' | 'get'>): Command {
  const command = addName(new Command('show').description(`Show a ${calls.kind}`), calls.kind);
  return addSelection(command, calls.kind).action(async (argument: string | undefined, options: Selection & Named) => {
    const name = nameOf(argument, options, calls.kind);
    const client = await context.connect();
    context.output().show(await findEntry(client, calls, name, selectionOf(options, calls.kind)));
  });
}

/** `remove <name>`. */
export function removeCommand(context: Context, calls: EntryCalls): Command {
  const command = addName(new Command('remove').description(`Delete a ${calls.kind}`), calls.kind);
  return addSelection(command, calls.kind).action(async (argument: string | undefined, options: Selection & Named) => {
    const name = nameOf(argument, options, calls.kind);
    const client = await context.connect();
    const selection = selectionOf(options, calls.kind);
    const entry = await findEntry(client, calls, name, selection);
    // Nothing else is removed than what is told, whatever has got the name meanwhile.
    const namespace = typeof entry.namespace === 'string' ? entry.namespace : undefined;
    const removed = await calls.remove(client, name, { ...selection, namespace });
    context.output().done(removed, `removed ${calls.kind} ${removed.removed}${placeOf(entry, 'from')}`);
    if (typeof entry.forward !== 'string') return;
    const again = `it comes back with the next discovery of its forward ${harmlessLine(entry.forward)}`;
    context.terminal.stderr.write(`${again}; move it to a namespace that agents do not use to keep it away\n`);
  });
}

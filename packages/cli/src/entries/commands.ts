import { Command } from 'commander';
import type { Context } from '../context.ts';
import { sanitizeLine } from '../terminal/harmless.ts';
import { formatPlace } from './entry.ts';
import type { EntryApi } from './entry-calls.ts';
import { getEntry } from './find-entry.ts';
import { addNameOption, type NameOption, requireName } from './named.ts';
import { addSelectorOptions, type EntrySelector, parseSelector } from './selection.ts';

/** `show <name>`: one entry with all its members. */
export function showCommand(context: Context, api: Pick<EntryApi, 'kind' | 'get'>): Command {
  const command = addNameOption(new Command('show').description(`Show a ${api.kind}`), api.kind);
  return addSelectorOptions(command, api.kind).action(
    async (argument: string | undefined, options: EntrySelector & NameOption) => {
      const name = requireName(argument, options, api.kind);
      const client = await context.connect();
      context.output().show(await getEntry(client, api, name, parseSelector(options, api.kind)));
    },
  );
}

/** `remove <name>`. */
export function removeCommand(context: Context, api: EntryApi): Command {
  const command = addNameOption(new Command('remove').description(`Delete a ${api.kind}`), api.kind);
  return addSelectorOptions(command, api.kind).action(
    async (argument: string | undefined, options: EntrySelector & NameOption) => {
      const name = requireName(argument, options, api.kind);
      const client = await context.connect();
      const selection = parseSelector(options, api.kind);
      const entry = await getEntry(client, api, name, selection);
      // Nothing else is removed than what is told, whatever has got the name meanwhile.
      const namespace = typeof entry.namespace === 'string' ? entry.namespace : undefined;
      const removed = await api.remove(client, name, { ...selection, namespace });
      context.output().done(removed, `removed ${api.kind} ${removed.removed}${formatPlace(entry, 'from')}`);
      if (typeof entry.forward !== 'string') return;
      const again = `it comes back with the next discovery of its forward ${sanitizeLine(entry.forward)}`;
      context.terminal.stderr.write(`${again}; move it to a namespace that agents do not use to keep it away\n`);
    },
  );
}

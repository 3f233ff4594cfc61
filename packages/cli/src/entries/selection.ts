import type { Command } from 'commander';
import type { EntryKind, Selection } from './kind.ts';

/** Adds the options that say which entry of a name is meant. */
export function addSelection(command: Command, kind: EntryKind['kind']): Command {
  if (kind === 'namespace') return command;
  command.option('-N, --namespace <namespace>', `the namespace that the ${kind} is in, where several have the name`);
  return kind === 'resource' ? command.option('--uri <uri>', 'its location, where several share the name') : command;
}

/** The selection out of a command's options. */
export function selectionOf({ namespace, uri }: Selection): Selection {
  return { namespace, uri };
}

import type { Command } from 'commander';
import type { EntryCalls } from './entry-calls.ts';

/** Which one is meant, where several share the name (decisions 2.2). */
export interface Selection {
  readonly namespace?: string | undefined;
  readonly uri?: string | undefined;
}

/** Adds the options that say which entry of a name is meant. */
export function addSelection(command: Command, kind: EntryCalls['kind']): Command {
  if (kind === 'namespace') return command;
  command.option('-N, --namespace <namespace>', `Namespace of the ${kind}, if the name is ambiguous`);
  return kind === 'resource' ? command.option('--uri <uri>', 'URI of the resource, if the name is ambiguous') : command;
}

/** The selection out of a command's options. Only resources are told apart by uri; of a tool it is a field. */
export function selectionOf({ namespace, uri }: Selection, kind: EntryCalls['kind']): Selection {
  return kind === 'resource' ? { namespace, uri } : { namespace };
}

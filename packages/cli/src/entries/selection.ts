import type { Command } from 'commander';
import type { EntryApi } from './entry-calls.ts';

/** Which one is meant, where several share the name (decisions 2.2). */
export interface EntrySelector {
  readonly namespace?: string | undefined;
  readonly uri?: string | undefined;
}

/** Adds the options that say which entry of a name is meant. */
export function addSelectorOptions(command: Command, kind: EntryApi['kind']): Command {
  if (kind === 'namespace') return command;
  command.option('-N, --namespace <namespace>', `Namespace of the ${kind}, if the name is ambiguous`);
  return kind === 'resource' ? command.option('--uri <uri>', 'URI of the resource, if the name is ambiguous') : command;
}

/** The selection out of a command's options. Only resources are told apart by uri; of a tool it is a field. */
export function parseSelector({ namespace, uri }: EntrySelector, kind: EntryApi['kind']): EntrySelector {
  return kind === 'resource' ? { namespace, uri } : { namespace };
}

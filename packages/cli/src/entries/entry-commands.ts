import { Command } from 'commander';
import type { Context } from '../context.ts';
import { Failure } from '../failure.ts';
import { sanitizeLine } from '../terminal/text.ts';
import type { EntrySelector } from './entry-api.ts';
import { type EnableApi, type EntryApi, formatNamespace, writableMembers } from './entry-api.ts';
import {
  addNameOption,
  addSelectorOptions,
  collectKeyValue,
  collectValue,
  formatLabels,
  type NameOption,
  parseSelector,
  requireName,
} from './entry-options.ts';
import { getEntry } from './lookup.ts';

/** `show <name>`: prints all members of an entry. */
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
      // Delete exactly the entry that is reported, even if the name is reused meanwhile.
      const namespace = typeof entry.namespace === 'string' ? entry.namespace : undefined;
      const removed = await api.remove(client, name, { ...selection, namespace });
      context.output().done(removed, `removed ${api.kind} ${removed.removed}${formatNamespace(entry, 'from')}`);
      if (typeof entry.forward !== 'string') return;
      const again = `the next discovery of forward ${sanitizeLine(entry.forward)} adds it again`;
      context.terminal.stderr.write(`${again}; to hide it, use "sluice ${api.kind}s disable"\n`);
    },
  );
}

interface EnableOptions {
  readonly namespace?: string;
  readonly forward?: string;
  readonly uri?: readonly string[];
}

/** `enable <name...>` and `disable <name...>`. */
export function enableCommand(context: Context, api: EnableApi, enabled: boolean): Command {
  const { kind } = api;
  const [verb, past] = enabled ? ['enable', 'enabled'] : ['disable', 'disabled'];
  const command = new Command(verb)
    .description(enabled ? `Enable ${kind}s` : `Disable ${kind}s: no MCP client or action finds them`)
    .argument(`[${kind}...]`, `Names of the ${kind}s`)
    .option('-N, --namespace <namespace>', `Namespace of the ${kind}s, if a name is ambiguous`)
    .option('--forward <forward>', 'Select by upstream names of this forward, discovered or not');
  if (kind === 'resource') command.option('--uri <uri>', 'URI or URI template; may be repeated', collectValue);
  return command.action(async (names: readonly string[], { namespace, forward, uri: uris }: EnableOptions) => {
    // Upstream resources have no other identity than their URI.
    const byUri = kind === 'resource' && (uris !== undefined || forward !== undefined);
    const selected = byUri ? [...names, ...(uris ?? [])] : names;
    if (selected.length === 0) throw new Failure(`missing name of the ${kind}`);
    const client = await context.connect();
    const body = { enabled, namespace, forward, ...(byUri ? { uris: selected } : { names: selected }) };
    const { count, pending = [], ...result } = await api.enable(client, body);
    const waiting = pending.length === 0 ? '' : ` (${pending.length} not discovered yet)`;
    context
      .output()
      .done({ ...result, count, pending }, `${past} ${count} ${count === 1 ? kind : `${kind}s`}${waiting}`);
  });
}

type Labels = Readonly<Record<string, string>>;

/** `label add <name> key=value...` and `label remove <name> key...`; other labels and members stay. */
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
        `${api.kind} ${changed.name}${formatNamespace(changed, 'in')}: ${formatLabels(changed.labels) || 'no labels'}`,
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

import type { ExposePatch, ExposeRules } from '@sluice/contract';
import { EXPOSED_KINDS } from '@sluice/contract/values';
import type { Command } from 'commander';
import { collectValue } from '../entries/entry-options.ts';
import { Failure } from '../failure.ts';

type ExposedKind = (typeof EXPOSED_KINDS)[number];
type RulesPatch = NonNullable<ExposePatch[ExposedKind]>;

/** Options that select the entries that a forward exposes. */
export interface ExposeOptions {
  readonly allow?: readonly string[];
  readonly deny?: readonly string[];
  readonly new?: readonly string[];
}

/** Adds {@link ExposeOptions} to a command. */
export function addExposeOptions(command: Command): Command {
  return command
    .option('--allow <kind:glob>', 'Expose only matching entries; may be repeated', collectValue)
    .option('--deny <kind:glob>', 'Do not expose matching entries; may be repeated', collectValue)
    .option(
      '--new <state>',
      'State of entries that appear later: enabled or disabled, or kind:state; may be repeated',
      collectValue,
    );
}

/** Explains {@link ExposeOptions}; for the help of a command. */
export const EXPOSE_HELP = `A kind is tools, resources or prompts. A glob matches whole upstream names, or whole URIs of resources, case-sensitively:
* matches any characters and ? one. --deny takes precedence over --allow.`;

/** Returns the changes of the rules; undefined without any. Throws {@link Failure} for an invalid option. */
export function parseExposeOptions({ allow, deny, new: added = [] }: ExposeOptions): ExposePatch | undefined {
  const changes = new Map<ExposedKind, RulesPatch>();
  const change = (kind: ExposedKind, rules: RulesPatch) => changes.set(kind, { ...changes.get(kind), ...rules });
  for (const [kind, globs] of globsByKind('--allow', allow)) change(kind, { allow: globs });
  for (const [kind, globs] of globsByKind('--deny', deny)) change(kind, { deny: globs });
  for (const text of added) {
    const [kind, state] = splitNew(text);
    for (const each of kind === undefined ? EXPOSED_KINDS : [kind]) change(each, { new: state });
  }
  return changes.size === 0 ? undefined : Object.fromEntries(changes);
}

/** The globs of each kind; null for an empty one, which removes the list. */
function globsByKind(option: string, texts: readonly string[] = []): Map<ExposedKind, string[] | null> {
  const byKind = Map.groupBy(
    texts.map((text) => splitKind(option, text)),
    ({ kind }) => kind,
  );
  return new Map(
    [...byKind].map(([kind, values]) => {
      const globs = values.map(({ rest }) => rest);
      if (!globs.includes('')) return [kind, globs];
      if (globs.length === 1) return [kind, null];
      throw new Failure(`invalid value "${kind}:" of ${option}: an empty glob removes the list and cannot be combined`);
    }),
  );
}

function splitKind(option: string, text: string): { readonly kind: ExposedKind; readonly rest: string } {
  const at = text.indexOf(':');
  const kind = EXPOSED_KINDS.find((known) => known === text.slice(0, at));
  if (at !== -1 && kind) return { kind, rest: text.slice(at + 1) };
  throw new Failure(`invalid value "${text}" of ${option}: expected tools:GLOB, resources:GLOB or prompts:GLOB`);
}

function splitNew(text: string): [ExposedKind | undefined, ExposeRules['new']] {
  const kind = EXPOSED_KINDS.find((known) => text.startsWith(`${known}:`));
  const state = kind === undefined ? text : text.slice(kind.length + 1);
  if (state === 'enabled' || state === 'disabled') return [kind, state];
  throw new Failure(
    `invalid value "${text}" of --new: expected enabled or disabled, or a kind with it: tools:disabled`,
  );
}

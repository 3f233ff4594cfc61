import type { Command } from 'commander';
import { Failure } from '../failure.ts';
import type { EntryApi, EntrySelector } from './entry-api.ts';

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

/** The name of what a command is about, as an option. */
export interface NameOption {
  readonly name?: string;
}

/** Lets a command take the name of what it is about as an argument or as `--name`. */
export function addNameOption(command: Command, kind: string): Command {
  return command
    .argument(`[${kind}]`, `Name of the ${kind}`)
    .option(`-n, --name <${kind}>`, `Name of the ${kind}, instead of the argument`);
}

/** The name that was given. Throws {@link Failure} for none and for two. */
export function requireName(argument: string | undefined, { name }: NameOption, kind: string): string {
  if (argument !== undefined && name !== undefined) throw new Failure(`the ${kind} is named twice: leave out --name`);
  const given = argument ?? name;
  if (given === undefined) throw new Failure(`which ${kind}? give its name`);
  return given;
}

/** Collects `-l key=value`, as an option's parser for commander. Throws {@link Failure} for text without `=`. */
export function collectKeyValue(text: string, so: Readonly<Record<string, string>> = {}): Record<string, string> {
  const at = text.indexOf('=');
  if (at < 1) throw new Failure(`"${text}" must be of the form key=value`);
  return { ...so, [text.slice(0, at)]: text.slice(at + 1) };
}

/** Labels as people read them. */
export function formatLabels(labels: Readonly<Record<string, string>>): string {
  return Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .join(',');
}

/** Where a capability service finds what it was provisioned with; tools and resources have both. */
export interface ProvisionFields {
  readonly configurationUri?: string;
  readonly secretsUri?: string;
}

/** Adds the options of {@link ProvisionFields} to a command. */
export function addProvisionOptions(command: Command): Command {
  return command
    .option('--configuration-uri <uri>', 'Configuration URI (configurationUri from "sluice services provision")')
    .option('--secrets-uri <uri>', 'Secrets URI (secretUri from "sluice services provision")');
}

/** A body with the fields over it, as its members are spelled. */
export function applyProvisionFields(
  body: Readonly<Record<string, unknown>>,
  { configurationUri, secretsUri }: ProvisionFields,
): Record<string, unknown> {
  return {
    ...body,
    ...(configurationUri !== undefined && { configurationURI: configurationUri }),
    ...(secretsUri !== undefined && { secretsURI: secretsUri }),
  };
}

import type { Command } from 'commander';
import { Failure } from '../failure.ts';
import type { EntryApi, EntrySelector } from './entry-api.ts';

/** Adds the options of {@link EntrySelector}. */
export function addSelectorOptions(command: Command, kind: EntryApi['kind']): Command {
  if (kind === 'namespace') return command;
  command.option('-N, --namespace <namespace>', `Namespace of the ${kind}, if the name is ambiguous`);
  return kind === 'resource' ? command.option('--uri <uri>', 'URI of the resource, if the name is ambiguous') : command;
}

/** Returns the selector from the options of a command. `uri` selects resources only; of a tool it is a field. */
export function parseSelector({ namespace, uri }: EntrySelector, kind: EntryApi['kind']): EntrySelector {
  return kind === 'resource' ? { namespace, uri } : { namespace };
}

/** The name of the entry as an option. */
export interface NameOption {
  readonly name?: string;
}

/** Adds the name of the entry as an argument and as `--name`. */
export function addNameOption(command: Command, kind: string): Command {
  return command
    .argument(`[${kind}]`, `Name of the ${kind}`)
    .option(`-n, --name <${kind}>`, `Name of the ${kind}, instead of the argument`);
}

/** Returns the given name. Throws {@link Failure} when none or two are given. */
export function requireName(argument: string | undefined, { name }: NameOption, kind: string): string {
  if (argument !== undefined && name !== undefined)
    throw new Failure(`the name of the ${kind} is given twice: omit --name`);
  const given = argument ?? name;
  if (given === undefined) throw new Failure(`missing name of the ${kind}: pass it as an argument or with --name`);
  return given;
}

/** Option parser that collects `key=value` pairs. Throws {@link Failure} for text without `=`. */
export function collectKeyValue(text: string, so: Readonly<Record<string, string>> = {}): Record<string, string> {
  const at = text.indexOf('=');
  if (at < 1) throw new Failure(`invalid value "${text}": expected key=value`);
  return { ...so, [text.slice(0, at)]: text.slice(at + 1) };
}

/** Option parser that collects the values of a repeated option. */
export function collectValue(text: string, so: readonly string[] = []): string[] {
  return [...so, text];
}

/** Formats labels as `key=value,...`. */
export function formatLabels(labels: Readonly<Record<string, string>>): string {
  return Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .join(',');
}

/** URIs of the provisioned configuration and secrets of a tool or resource. */
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

/** Returns the body with the fields applied under their API names. */
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

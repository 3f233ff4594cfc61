import type { Command } from 'commander';

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

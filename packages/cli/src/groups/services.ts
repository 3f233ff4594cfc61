import type { ServiceType } from '@sluice/contract';
import { unwrap } from '@sluice/contract/client';
import { SERVICE_TYPES } from '@sluice/contract/values';
import { counted } from '@sluice/protocol/text';
import { Command, Option } from 'commander';
import type { Context } from '../context.ts';
import { addNameOption, collectKeyValue, type NameOption, requireName } from '../entries/entry-options.ts';
import { Failure } from '../failure.ts';
import { validated } from '../files/document.ts';
import { readText } from '../files/read-file.ts';

/** `sluice services`. */
export function servicesCommand(context: Context): Command {
  return new Command('services')
    .description('Manage capability services (gRPC)')
    .addCommand(listCommand(context))
    .addCommand(showCommand(context))
    .addCommand(addCommand(context))
    .addCommand(removeCommand(context))
    .addCommand(provisionCommand(context));
}

function listCommand(context: Context): Command {
  return new Command('list').description('List service entries').action(async () => {
    const client = await context.connect();
    context.output().list(
      await unwrap(client.GET('/api/v1/services')),
      [
        { title: 'NAME', value: ({ name }) => name, cut: 'never' },
        { title: 'ADDRESS', value: ({ address }) => address },
        { title: 'TYPE', value: (entry) => entry.serviceType },
        { title: 'SUB-TYPE', value: ({ serviceSubType = '-' }) => serviceSubType },
        { title: 'LANGUAGE', value: ({ languageName = '-' }) => languageName },
        { title: 'HEALTH', value: ({ health }) => health },
      ],
      'no service entries',
    );
  });
}

interface TypeOption {
  readonly type?: ServiceType;
}

const typeOption = (description: string): Option => new Option('--type <type>', description).choices(SERVICE_TYPES);

function showCommand(context: Context): Command {
  return addNameOption(new Command('show'), 'service')
    .description('Show service entries by name')
    .addOption(typeOption('Service type, if the name is ambiguous'))
    .action(async (argument: string | undefined, options: TypeOption & NameOption) => {
      const name = requireName(argument, options, 'service');
      const { type } = options;
      const client = await context.connect();
      const params = { path: { name }, query: { serviceType: type } };
      context.output().show(await unwrap(client.GET('/api/v1/services/{name}', { params })));
    });
}

interface AddOptions extends TypeOption {
  readonly name: string;
  readonly address: string;
  readonly subType?: string;
  readonly language?: string;
  readonly label?: Record<string, string>;
}

function addCommand(context: Context): Command {
  return new Command('add')
    .description('Add a service entry, or replace the one with the same name, type, sub-type and language')
    .requiredOption('-n, --name <name>', 'Entry name, which tools use as their type')
    .requiredOption('--address <host:port>', 'gRPC address')
    .addOption(typeOption('Service type').makeOptionMandatory())
    .option('--sub-type <type>', 'Engine, for a code-execution engine')
    .option('--language <name>', 'Language, for a code-execution engine')
    .option('-l, --label <key=value>', 'Label; may be repeated', collectKeyValue)
    .addHelpText(
      'after',
      `
Example:
  sluice services add --name weather --address 10.0.0.5:9090 --type tool-invoker
  sluice services add --name py --address 10.0.0.5:9091 --type code-execution-engine --sub-type docker --language python

Tools name sub-type and language in their URI: code-execution-engine://docker/python`,
    )
    .action(async ({ name, address, type, subType, language, label: labels }: AddOptions) => {
      const entry = { name, address, serviceType: type, serviceSubType: subType, languageName: language, labels };
      const body = await validated(({ serviceInput }) => serviceInput, entry, 'service entry');
      const client = await context.connect();
      const call = client.POST('/api/v1/services', { body });
      const added = await unwrap(call);
      const { response } = await call;
      const verb = response.status === 201 ? 'added' : 'replaced';
      context.output().done(added, `${verb} service ${added.name} at ${added.address}: ${added.health}`);
    });
}

function removeCommand(context: Context): Command {
  return addNameOption(new Command('remove'), 'service')
    .description('Delete service entries by name')
    .addOption(typeOption('Only entries of this type'))
    .action(async (argument: string | undefined, options: TypeOption & NameOption) => {
      const name = requireName(argument, options, 'service');
      const { type } = options;
      const client = await context.connect();
      const params = { path: { name }, query: { serviceType: type } };
      const removed = await unwrap(client.DELETE('/api/v1/services/{name}', { params }));
      const entries = counted(removed.count, 'entry');
      context.output().done(removed, `removed service ${removed.removed}: ${entries}`);
    });
}

interface ProvisionOptions extends TypeOption {
  readonly name: string;
  readonly config?: string;
  readonly secrets?: string;
  readonly uri?: string;
}

function provisionCommand(context: Context): Command {
  return new Command('provision')
    .description('Store configuration and secrets in a capability service')
    .argument('<service>', 'Name of the service')
    .requiredOption('-n, --name <name>', 'Name to store them under')
    .option('--config <file>', 'Configuration file, "-" for standard input')
    .option('--secrets <file>', 'Secrets file, "-" for standard input')
    .option('--uri <uri>', 'URI to provision for')
    .addOption(typeOption('Service type, if the name is ambiguous'))
    .addHelpText(
      'after',
      `
The files are sent unchanged. The output contains the URIs for --configuration-uri and --secrets-uri of tools and resources.

Example:
  sluice services provision weather --name crm --config crm.json --secrets - < crm.key`,
    )
    .action(async (service: string, { name, config, secrets, uri, type }: ProvisionOptions) => {
      // An empty secret would replace the existing one.
      if (config === undefined && secrets === undefined) {
        throw new Failure('nothing to provision: use --config, --secrets or both');
      }
      if (config === '-' && secrets === '-') {
        throw new Failure('--config - --secrets -: standard input can be read only once; use a file for one of them');
      }
      const input = {
        name,
        configuration: config === undefined ? undefined : await readText(config, context.terminal),
        secrets: secrets === undefined ? undefined : await readText(secrets, context.terminal),
        uri,
      };
      const body = await validated(({ provisionInput }) => provisionInput, input, 'provision');
      const client = await context.connect();
      const params = { path: { name: service }, query: { serviceType: type } };
      context.output().show(await unwrap(client.POST('/api/v1/services/{name}/provisions', { params, body })));
    });
}

import { provisionInput, type ServiceType, serviceInput, serviceType } from '@sluice/contract';
import { payload } from '@sluice/contract/client';
import { Command, Option } from 'commander';
import type { Context } from '../context.ts';
import { collectPair } from '../entries/labels.ts';
import { addName, type Named, nameOf } from '../entries/named.ts';
import { Failure } from '../failure.ts';
import { checked } from '../files/checked.ts';
import { readText } from '../files/read.ts';

/** `sluice services` (decisions 1.8). */
export function services(context: Context): Command {
  return new Command('services')
    .description('gRPC addresses of capability services')
    .addCommand(list(context))
    .addCommand(show(context))
    .addCommand(add(context))
    .addCommand(remove(context))
    .addCommand(provision(context));
}

function list(context: Context): Command {
  return new Command('list').description('list the service entries').action(async () => {
    const client = await context.connect();
    context.output().list(
      await payload(client.GET('/api/v1/services')),
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

interface Typed {
  readonly type?: ServiceType;
}

const typeOption = (description: string): Option =>
  new Option('--type <type>', description).choices(serviceType.options);

function show(context: Context): Command {
  return addName(new Command('show'), 'service')
    .description('show a service entry; with several of the name, all of them')
    .addOption(typeOption('the type that is meant, where several entries have the name'))
    .action(async (argument: string | undefined, options: Typed & Named) => {
      const name = nameOf(argument, options, 'service');
      const { type } = options;
      const client = await context.connect();
      const params = { path: { name }, query: { serviceType: type } };
      context.output().show(await payload(client.GET('/api/v1/services/{name}', { params })));
    });
}

interface AddOptions extends Typed {
  readonly name: string;
  readonly address: string;
  readonly subType?: string;
  readonly language?: string;
  readonly label?: Record<string, string>;
}

function add(context: Context): Command {
  return new Command('add')
    .description('register a capability service; an entry of the same name, type, sub-type and language is replaced')
    .requiredOption('-n, --name <name>', 'its name; for tools, the type that they name')
    .requiredOption('--address <host:port>', 'where it listens for gRPC')
    .addOption(typeOption('what it does').makeOptionMandatory())
    .option('--sub-type <type>', 'the engine of a code-execution engine')
    .option('--language <name>', 'the language of a code-execution engine')
    .option('-l, --label <key=value>', 'a label; may be repeated', collectPair)
    .addHelpText(
      'after',
      `
Example:
  sluice services add --name weather --address 10.0.0.5:9090 --type tool-invoker
  sluice services add --name py --address 10.0.0.5:9091 --type code-execution-engine --sub-type docker --language python

Sub-type and language are what the uri of a tool names: code-execution-engine://docker/python`,
    )
    .action(async ({ name, address, type, subType, language, label: labels }: AddOptions) => {
      const entry = { name, address, serviceType: type, serviceSubType: subType, languageName: language, labels };
      const body = checked(serviceInput, entry, 'service entry');
      const client = await context.connect();
      const call = client.POST('/api/v1/services', { body });
      const added = await payload(call);
      const { response } = await call;
      const verb = response.status === 201 ? 'added' : 'replaced';
      context.output().done(added, `${verb} service ${added.name} at ${added.address}: ${added.health}`);
    });
}

function remove(context: Context): Command {
  return addName(new Command('remove'), 'service')
    .description('remove all entries of a name')
    .addOption(typeOption('only entries of this type'))
    .action(async (argument: string | undefined, options: Typed & Named) => {
      const name = nameOf(argument, options, 'service');
      const { type } = options;
      const client = await context.connect();
      const params = { path: { name }, query: { serviceType: type } };
      const removed = await payload(client.DELETE('/api/v1/services/{name}', { params }));
      const entries = removed.count === 1 ? 'one entry' : `${removed.count} entries`;
      context.output().done(removed, `removed service ${removed.removed}: ${entries}`);
    });
}

interface ProvisionOptions extends Typed {
  readonly name: string;
  readonly config?: string;
  readonly secrets?: string;
  readonly uri?: string;
}

function provision(context: Context): Command {
  return new Command('provision')
    .description('have a capability service keep configuration and secrets, and show what tools name to use them')
    .argument('<service>', 'its name')
    .requiredOption('-n, --name <name>', 'what they are kept under')
    .option('--config <file>', 'the configuration, sent as it is; - reads standard input')
    .option('--secrets <file>', 'the secrets, sent as they are; - reads standard input')
    .option('--uri <uri>', 'what the service is to provision for')
    .addOption(typeOption('the type that is meant, where several entries have the name'))
    .addHelpText(
      'after',
      `
Example:
  sluice services provision weather --name crm --config crm.json --secrets - < crm.key`,
    )
    .action(async (service: string, { name, config, secrets, uri, type }: ProvisionOptions) => {
      // An empty secret would be put over the one that is there.
      if (config === undefined && secrets === undefined) {
        throw new Failure('nothing to provision: give --config <file> or --secrets <file>, or both');
      }
      if (config === '-' && secrets === '-') {
        throw new Failure('--config - --secrets -: standard input can be read once; give a file for one of them');
      }
      const given = {
        name,
        configuration: config === undefined ? undefined : await readText(config, context.terminal),
        secrets: secrets === undefined ? undefined : await readText(secrets, context.terminal),
        uri,
      };
      const body = checked(provisionInput, given, 'provision');
      const client = await context.connect();
      const params = { path: { name: service }, query: { serviceType: type } };
      context.output().show(await payload(client.POST('/api/v1/services/{name}/provisions', { params, body })));
    });
}

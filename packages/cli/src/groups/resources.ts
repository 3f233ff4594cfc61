import { payload } from '@sluice/contract/client';
import type { Command } from 'commander';
import type { Context } from '../context.ts';
import { RESOURCE_CALLS } from '../entries/entry-calls.ts';
import { entryGroup } from '../entries/entry-group.ts';
import type { EntryKind, Listed } from '../entries/entry-kind.ts';
import { collectPair } from '../entries/labels.ts';
import { addProvisionedFields, type ProvisionedFields, withProvisionedFields } from './provisioned-fields.ts';

/** `sluice resources` (decisions 1.8). */
export function resources(context: Context): Command {
  return entryGroup(context, RESOURCE);
}

interface Fields extends ProvisionedFields {
  readonly location?: string;
  readonly type?: string;
  readonly name?: string;
  readonly description?: string;
  readonly mimeType?: string;
  readonly param?: Readonly<Record<string, string>>;
}

type Row = Listed & { readonly location: string; readonly type: string };

const RESOURCE: EntryKind<Row, Fields> = {
  ...RESOURCE_CALLS,
  description: 'what agents can read',
  list: (client, query) => payload(client.GET('/api/v1/resources', { params: { query } })),
  listed: 'resources and resource templates',
  columns: [
    { title: 'LOCATION', value: ({ location }) => location },
    { title: 'TYPE', value: ({ type }) => type },
  ],
  add: 'expose',
  addFields: (command) =>
    addProvisionedFields(
      command
        .option('-n, --name <name>', 'its name')
        .option('--location <uri>', 'its uri, as agents read it')
        .option('--type <type>', 'its type: what a service entry is named for')
        .option('-d, --description <text>', 'what it is, for agents')
        .option('--mimeType, --mime-type <type>', 'its media type')
        .option('--param <key=value>', 'a parameter for its capability service; may be repeated', collectPair),
    ),
  withFields: (resource, { name, location, type, description, mimeType, param, ...provisioned }) => ({
    ...withProvisionedFields(resource, provisioned),
    ...(name !== undefined && { name }),
    ...(location !== undefined && { location }),
    ...(type !== undefined && { type }),
    ...(description !== undefined && { description }),
    ...(mimeType !== undefined && { mimeType }),
    ...(param && { params: Object.entries(param).map(([key, value]) => ({ name: key, value })) }),
  }),
  addHelp: `Example:
  sluice resources expose --name handbook --location docs://handbook --type documents --mime-type text/markdown`,
};

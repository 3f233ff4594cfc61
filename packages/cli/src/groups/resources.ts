import { unwrapPage } from '@sluice/contract/client';
import type { Command } from 'commander';
import type { Context } from '../context.ts';
import { RESOURCE_API } from '../entries/entry-api.ts';
import { type EntryKind, entryGroup, type ListRow } from '../entries/entry-group.ts';
import {
  addProvisionOptions,
  applyProvisionFields,
  collectKeyValue,
  type ProvisionFields,
} from '../entries/entry-options.ts';

/** `sluice resources`. */
export function resourcesCommand(context: Context): Command {
  return entryGroup(context, RESOURCE);
}

interface ResourceFields extends ProvisionFields {
  readonly location?: string;
  readonly type?: string;
  readonly name?: string;
  readonly description?: string;
  readonly mimeType?: string;
  readonly param?: Readonly<Record<string, string>>;
}

type ResourceRow = ListRow & { readonly location: string; readonly type: string };

const RESOURCE: EntryKind<ResourceRow, ResourceFields> = {
  ...RESOURCE_API,
  description: 'Manage resources',
  list: (client, query) => unwrapPage(client.GET('/api/v1/resources', { params: { query } })),
  listed: 'resources and resource templates',
  columns: [
    { title: 'LOCATION', value: ({ location }) => location },
    { title: 'TYPE', value: ({ type }) => type },
  ],
  addFieldOptions: (command) =>
    addProvisionOptions(
      command
        .option('-n, --name <name>', 'Resource name')
        .option('--location <uri>', 'Resource URI')
        .option('--type <type>', 'Resource type: the name of a service entry')
        .option('-d, --description <text>', 'Resource description')
        .option('--mimeType, --mime-type <type>', 'MIME type')
        .option('--param <key=value>', 'Parameter for the capability service; may be repeated', collectKeyValue),
    ),
  applyFields: (resource, { name, location, type, description, mimeType, param, ...provisioned }) => ({
    ...applyProvisionFields(resource, provisioned),
    ...(name !== undefined && { name }),
    ...(location !== undefined && { location }),
    ...(type !== undefined && { type }),
    ...(description !== undefined && { description }),
    ...(mimeType !== undefined && { mimeType }),
    ...(param && { params: Object.entries(param).map(([key, value]) => ({ name: key, value })) }),
  }),
  addHelp: `Example:
  sluice resources add --name handbook --location docs://handbook --type documents --mime-type text/markdown`,
};

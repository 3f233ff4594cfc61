import type { EnabledResult } from '@sluice/contract';
import { type Client, entryParams, unwrap } from '@sluice/contract/client';
import { validated } from '../files/document.ts';

/** A tool, resource, prompt or namespace as returned by the API. Numbers are unchanged. */
export interface Entry {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly [member: string]: unknown;
}

/** Formats the namespace of an entry for a message: ` in default`; empty for a namespace itself. */
export function formatNamespace({ namespace }: Entry, preposition: 'in' | 'from'): string {
  return typeof namespace === 'string' ? ` ${preposition} ${namespace}` : '';
}

/** Members that the service sets and ignores in requests. */
const READ_ONLY: readonly string[] = ['forward', 'upstreamName', 'shadowed'];

/** Returns the members that can be changed. */
export function writableMembers(entry: Entry): Record<string, unknown> {
  return Object.fromEntries(Object.entries(entry).filter(([member]) => !READ_ONLY.includes(member)));
}

/** Selects one of several entries with the same name. */
export interface EntrySelector {
  readonly namespace?: string | undefined;
  readonly uri?: string | undefined;
}

/** API operations for one kind of entry. Bodies are validated before they are sent. */
export interface EntryApi {
  /** Kind for messages: `tool`. */
  readonly kind: 'tool' | 'resource' | 'prompt' | 'namespace';
  readonly get: (client: Client, name: string, selection: EntrySelector) => Promise<Entry>;
  readonly create: (client: Client, body: unknown) => Promise<Entry>;
  readonly update: (client: Client, name: string, selection: EntrySelector, body: unknown) => Promise<Entry>;
  readonly remove: (client: Client, name: string, selection: EntrySelector) => Promise<{ readonly removed: string }>;
}

/** API operation that enables or disables entries of one kind. */
export interface EnableApi {
  readonly kind: 'tool' | 'resource' | 'prompt';
  readonly enable: (client: Client, body: unknown) => Promise<EnabledResult>;
}

/** `/api/v1/tools`. */
export const TOOL_API: EntryApi & EnableApi = {
  kind: 'tool',
  get: (client, name, { namespace }) =>
    unwrap(client.GET('/api/v1/tools/{name}', { params: entryParams(name, { namespace }) })),
  create: async (client, body) =>
    unwrap(client.POST('/api/v1/tools', { body: await validated(({ toolInput }) => toolInput, body, 'tool') })),
  update: async (client, name, { namespace }, body) =>
    unwrap(
      client.PUT('/api/v1/tools/{name}', {
        params: entryParams(name, { namespace }),
        body: await validated(({ toolUpdate }) => toolUpdate, body, 'tool'),
      }),
    ),
  remove: (client, name, { namespace }) =>
    unwrap(client.DELETE('/api/v1/tools/{name}', { params: entryParams(name, { namespace }) })),
  enable: async (client, body) =>
    unwrap(
      client.POST('/api/v1/tools/enabled', {
        body: await validated(({ enabledByName }) => enabledByName, body, 'selection of tools'),
      }),
    ),
};

/** `/api/v1/resources`. */
export const RESOURCE_API: EntryApi & EnableApi = {
  kind: 'resource',
  get: (client, name, { namespace, uri }) =>
    unwrap(client.GET('/api/v1/resources/{name}', { params: entryParams(name, { namespace, uri }) })),
  create: async (client, body) =>
    unwrap(
      client.POST('/api/v1/resources', {
        body: await validated(({ resourceInput }) => resourceInput, body, 'resource'),
      }),
    ),
  update: async (client, name, { namespace, uri }, body) =>
    unwrap(
      client.PUT('/api/v1/resources/{name}', {
        params: entryParams(name, { namespace, uri }),
        body: await validated(({ resourceUpdate }) => resourceUpdate, body, 'resource'),
      }),
    ),
  remove: (client, name, { namespace, uri }) =>
    unwrap(client.DELETE('/api/v1/resources/{name}', { params: entryParams(name, { namespace, uri }) })),
  enable: async (client, body) =>
    unwrap(
      client.POST('/api/v1/resources/enabled', {
        body: await validated(({ enabledByUri }) => enabledByUri, body, 'selection of resources'),
      }),
    ),
};

/** `/api/v1/prompts`. */
export const PROMPT_API: EntryApi & EnableApi = {
  kind: 'prompt',
  get: (client, name, { namespace }) =>
    unwrap(client.GET('/api/v1/prompts/{name}', { params: entryParams(name, { namespace }) })),
  create: async (client, body) =>
    unwrap(client.POST('/api/v1/prompts', { body: await validated(({ promptInput }) => promptInput, body, 'prompt') })),
  update: async (client, name, { namespace }, body) =>
    unwrap(
      client.PUT('/api/v1/prompts/{name}', {
        params: entryParams(name, { namespace }),
        body: await validated(({ promptUpdate }) => promptUpdate, body, 'prompt'),
      }),
    ),
  remove: (client, name, { namespace }) =>
    unwrap(client.DELETE('/api/v1/prompts/{name}', { params: entryParams(name, { namespace }) })),
  enable: async (client, body) =>
    unwrap(
      client.POST('/api/v1/prompts/enabled', {
        body: await validated(({ enabledByName }) => enabledByName, body, 'selection of prompts'),
      }),
    ),
};

/** `/api/v1/namespaces`. */
export const NAMESPACE_API: Pick<EntryApi, 'kind' | 'get' | 'update'> = {
  kind: 'namespace',
  get: (client, name) => unwrap(client.GET('/api/v1/namespaces/{name}', { params: { path: { name } } })),
  update: async (client, name, _selection, body) =>
    unwrap(
      client.PUT('/api/v1/namespaces/{name}', {
        params: { path: { name } },
        body: await validated(({ namespaceUpdate }) => namespaceUpdate, body, 'namespace'),
      }),
    ),
};

import {
  type PromptUpdate,
  promptInput,
  type ResourceUpdate,
  resourceInput,
  type ToolUpdate,
  toolInput,
} from '@sluice/contract';
import { type Client, entryParams, unwrap } from '@sluice/contract/client';
import type { Entries, EntryKind } from '../../api/entries.ts';
import type { Prompt, Resource, Tool } from '../../api/queries.ts';

/** A tool, resource or prompt as the API lists it. */
export type Entry = Entries[EntryKind];

/** What the API calls a kind of entries, and how it changes them. */
export interface EntryApi<E extends Entry> {
  readonly kind: EntryKind;
  /** "tool" */
  readonly singular: string;
  /** Name of a tool or prompt, location of a resource: unique in a namespace. */
  key(entry: E): string;
  /** Reads an entry again. */
  read(client: Client, entry: E): Promise<E>;
  /** Creates a deleted entry again. */
  restore(client: Client, entry: E): Promise<unknown>;
  remove(client: Client, entry: E): Promise<unknown>;
  /** Enables or disables entries of one namespace. */
  enable(client: Client, entries: readonly E[], enabled: boolean): Promise<unknown>;
  /** Disables an entry of a forward that is not registered at present. */
  disableDiscovered(client: Client, entry: E, forward: string): Promise<unknown>;
}

/** `/api/v1/tools` */
export const TOOLS: EntryApi<Tool> = {
  kind: 'tools',
  singular: 'tool',
  key: ({ name }) => name,
  restore: (client, entry) => saveTool(client, undefined, toolInput.parse(writable(entry))),
  read: (client, entry) => unwrap(client.GET('/api/v1/tools/{name}', { params: selectByName(entry) })),
  remove: (client, entry) => unwrap(client.DELETE('/api/v1/tools/{name}', { params: selectByName(entry) })),
  enable: (client, entries, enabled) =>
    unwrap(client.POST('/api/v1/tools/enabled', { body: { enabled, ...selectNames(entries) } })),
  disableDiscovered: (client, entry, forward) =>
    unwrap(client.POST('/api/v1/tools/enabled', { body: { enabled: false, forward, names: [upstreamName(entry)] } })),
};

/** `/api/v1/resources` */
export const RESOURCES: EntryApi<Resource> = {
  kind: 'resources',
  singular: 'resource',
  key: ({ location }) => location,
  restore: (client, entry) => saveResource(client, undefined, resourceInput.parse(writable(entry))),
  read: (client, entry) => unwrap(client.GET('/api/v1/resources/{name}', { params: selectByUri(entry) })),
  remove: (client, entry) => unwrap(client.DELETE('/api/v1/resources/{name}', { params: selectByUri(entry) })),
  enable: (client, entries, enabled) => {
    const uris = entries.map(({ location }) => location);
    const namespace = entries[0]?.namespace;
    return unwrap(
      client.POST('/api/v1/resources/enabled', { body: { enabled, uris, ...(namespace && { namespace }) } }),
    );
  },
  disableDiscovered: (client, { location }, forward) =>
    unwrap(client.POST('/api/v1/resources/enabled', { body: { enabled: false, forward, uris: [location] } })),
};

/** `/api/v1/prompts` */
export const PROMPTS: EntryApi<Prompt> = {
  kind: 'prompts',
  singular: 'prompt',
  key: ({ name }) => name,
  restore: (client, entry) => savePrompt(client, undefined, promptInput.parse(writable(entry))),
  read: (client, entry) => unwrap(client.GET('/api/v1/prompts/{name}', { params: selectByName(entry) })),
  remove: (client, entry) => unwrap(client.DELETE('/api/v1/prompts/{name}', { params: selectByName(entry) })),
  enable: (client, entries, enabled) =>
    unwrap(client.POST('/api/v1/prompts/enabled', { body: { enabled, ...selectNames(entries) } })),
  disableDiscovered: (client, entry, forward) =>
    unwrap(client.POST('/api/v1/prompts/enabled', { body: { enabled: false, forward, names: [upstreamName(entry)] } })),
};

/** Creates a tool, or replaces `before`: another name renames it, another namespace moves it. */
export function saveTool(client: Client, before: Tool | undefined, body: ToolUpdate): Promise<unknown> {
  return unwrap(
    before
      ? client.PUT('/api/v1/tools/{name}', { params: selectByName(before), body })
      : client.POST('/api/v1/tools', { body: toolInput.parse(body) }),
  );
}

/** Creates a resource, or replaces `before`. */
export function saveResource(client: Client, before: Resource | undefined, body: ResourceUpdate): Promise<unknown> {
  return unwrap(
    before
      ? client.PUT('/api/v1/resources/{name}', { params: selectByUri(before), body })
      : client.POST('/api/v1/resources', { body: resourceInput.parse(body) }),
  );
}

/** Creates a prompt, or replaces `before`. */
export function savePrompt(client: Client, before: Prompt | undefined, body: PromptUpdate): Promise<unknown> {
  return unwrap(
    before
      ? client.PUT('/api/v1/prompts/{name}', { params: selectByName(before), body })
      : client.POST('/api/v1/prompts', { body: promptInput.parse(body) }),
  );
}

function selectByName({ name, namespace }: Entry) {
  return entryParams(name, { namespace });
}

function selectByUri({ name, namespace, location }: Resource) {
  return entryParams(name, { namespace, uri: location });
}

function selectNames(entries: readonly Entry[]) {
  const namespace = entries[0]?.namespace;
  return { names: entries.map(({ name }) => name), ...(namespace && { namespace }) };
}

function upstreamName({ name, upstreamName: original }: Tool | Prompt): string {
  return typeof original === 'string' ? original : name;
}

/** Returns an entry without the members that the service adds, as the body of a request. */
export function writable<E extends Entry>(entry: E): E {
  const body = { ...entry };
  delete body.forward;
  delete body.upstreamName;
  delete body.shadowed;
  delete body.upstream;
  return body;
}

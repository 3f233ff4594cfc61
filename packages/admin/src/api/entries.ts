import { type Client, unwrapPage } from '@sluice/contract/client';
import type { UseQueryResult } from '@tanstack/react-query';
import { type Forward, type Prompt, type Resource, type Tool, useApiQuery } from './queries.ts';

/** A list of which only the first part may be loaded. */
export interface LongList<Entry> {
  readonly entries: readonly Entry[];
  /** Number of matching entries. */
  readonly total: number;
}

/** Kinds of entries of the registry. */
export interface Entries {
  readonly tools: Tool;
  readonly resources: Resource;
  readonly prompts: Prompt;
}

export type EntryKind = keyof Entries;

export const ENTRY_KINDS = ['tools', 'resources', 'prompts'] as const satisfies readonly EntryKind[];

/** Returns a number of entries: "1 tool". */
export function countLabel(count: number, kind: EntryKind): string {
  return `${count} ${count === 1 ? kind.replace(/s$/, '') : kind}`;
}

/** Entries that are loaded at most; among more, the service searches. */
const MAX_LOADED = 20_000;
const PAGE_SIZE = 1_000;

/** Query parameters of a page. */
interface PageQuery {
  readonly include: 'shadowed,upstream';
  readonly limit: string;
  readonly cursor?: string;
  readonly q?: string;
}

/** A page of a list. */
interface PageOf<Entry> {
  readonly data: Entry[];
  readonly page?: { readonly next?: string | undefined; readonly total: number } | undefined;
}

/** Reads a page of each kind of entries. */
const READ_PAGE: {
  readonly [K in EntryKind]: (client: Client, query: PageQuery, signal?: AbortSignal) => Promise<PageOf<Entries[K]>>;
} = {
  tools: (client, query, signal) => unwrapPage(client.GET('/api/v1/tools', { params: { query }, signal })),
  resources: (client, query, signal) => unwrapPage(client.GET('/api/v1/resources', { params: { query }, signal })),
  prompts: (client, query, signal) => unwrapPage(client.GET('/api/v1/prompts', { params: { query }, signal })),
};

/** Reads the entries of a kind that match `q`, shadowed ones included, with the values of their upstreams. */
export async function readEntries<K extends EntryKind>(
  client: Client,
  kind: K,
  q = '',
  signal?: AbortSignal,
): Promise<LongList<Entries[K]>> {
  const entries: Entries[K][] = [];
  const query = { include: 'shadowed,upstream', limit: String(PAGE_SIZE), ...(q !== '' && { q }) } as const;
  let cursor: string | undefined;
  let total = 0;
  do {
    const { data, page } = await READ_PAGE[kind](client, { ...query, ...(cursor && { cursor }) }, signal);
    entries.push(...data);
    total = page?.total ?? entries.length;
    cursor = page?.next;
  } while (cursor !== undefined && entries.length < MAX_LOADED);
  return { entries, total };
}

/** The entries of a kind that match `q`. */
export function useEntries<K extends EntryKind>(kind: K, q = ''): UseQueryResult<LongList<Entries[K]>> {
  return useApiQuery([kind, 'list', q], (client, signal) => readEntries(client, kind, q, signal));
}

/** Whether an operator has changed, moved, renamed or disabled an entry that the forward has discovered. */
export function isChanged(entry: Entries[EntryKind], forward: Forward): boolean {
  if (entry.forward !== forward.name) return false;
  const { upstream } = entry;
  const overrides = typeof upstream === 'object' && upstream !== null ? Object.keys(upstream) : [];
  return (
    !entry.enabled || entry.namespace !== forward.namespace || overrides.some((member) => isOverridden(entry, member))
  );
}

/** Whether a member differs from the upstream's value. */
export function isOverridden(entry: Entries[EntryKind], member: string): boolean {
  const { upstream } = entry;
  if (typeof upstream !== 'object' || upstream === null) return false;
  const original = Object.entries(upstream).find(([name]) => name === member)?.[1];
  return JSON.stringify(original ?? null) !== JSON.stringify(entry[member] ?? null);
}

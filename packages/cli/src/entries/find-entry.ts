import { ApiError, type Client } from '@sluice/contract/client';
import type { Entry } from './entry.ts';
import type { EntryApi } from './entry-calls.ts';
import { requireNamespace } from './new-namespace.ts';
import type { EntrySelector } from './selection.ts';

/** The entry that a command names. Where its namespace is not there, that is said instead of "not found". */
export async function getEntry(
  client: Client,
  api: Pick<EntryApi, 'get'>,
  name: string,
  selection: EntrySelector,
): Promise<Entry> {
  try {
    return await api.get(client, name, selection);
  } catch (error) {
    if (error instanceof ApiError && error.code === 'NOT_FOUND') await requireNamespace(client, selection.namespace);
    throw error;
  }
}

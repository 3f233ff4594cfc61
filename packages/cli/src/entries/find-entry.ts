import { ApiError, type Client } from '@sluice/contract/client';
import type { Entry } from './entry.ts';
import type { EntryCalls } from './entry-calls.ts';
import { mustExist } from './new-namespace.ts';
import type { Selection } from './selection.ts';

/** The entry that a command names. Where its namespace is not there, that is said instead of "not found". */
export async function findEntry(
  client: Client,
  calls: Pick<EntryCalls, 'get'>,
  name: string,
  selection: Selection,
): Promise<Entry> {
  try {
    return await calls.get(client, name, selection);
  } catch (error) {
    if (error instanceof ApiError && error.code === 'NOT_FOUND') await mustExist(client, selection.namespace);
    throw error;
  }
}

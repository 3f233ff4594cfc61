import { ApiError, type Client, unwrap } from '@sluice/contract/client';
import { Failure } from '../failure.ts';
import type { Entry, EntryApi, EntrySelector } from './entry-api.ts';

/** Appended to the name of a namespace that did not exist before and may be misspelled. */
export const NEW_NAMESPACE_NOTE = ' (new namespace)';

/**
 * Whether the service reports that a namespace does not exist. False on other errors: the following request reports
 * them.
 */
export async function isNewNamespace(client: Client, name: string | undefined): Promise<boolean> {
  if (name === undefined) return false;
  try {
    await unwrap(client.GET('/api/v1/namespaces/{name}', { params: { path: { name } } }));
    return false;
  } catch (error) {
    return error instanceof ApiError && error.code === 'NOT_FOUND';
  }
}

/** Throws {@link Failure} when a namespace does not exist; otherwise it is merely empty. */
export async function requireNamespace(client: Client, namespace: string | undefined): Promise<void> {
  if (await isNewNamespace(client, namespace)) throw new Failure(`namespace "${namespace}" does not exist`);
}

/** Returns an entry. When its namespace does not exist, the error reports that instead of "not found". */
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

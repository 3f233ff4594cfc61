import { ApiError, type Client, unwrap } from '@sluice/contract/client';
import { Failure } from '../failure.ts';
import type { Entry, EntryApi, EntrySelector } from './entry-api.ts';

/** Stands behind the name of a namespace that was not there before: it may be misspelt. */
export const NEW_NAMESPACE_NOTE = ' (new namespace)';

/**
 * Whether the service says that it has no such namespace. False too when it says anything else: what is asked for next
 * tells what is wrong.
 */
export async function isNewNamespace(
  client: Client,
  name: string | undefined,
  signal: AbortSignal | null = null,
): Promise<boolean> {
  if (name === undefined) return false;
  try {
    await unwrap(client.GET('/api/v1/namespaces/{name}', { params: { path: { name } }, signal }));
    return false;
  } catch (error) {
    return error instanceof ApiError && error.code === 'NOT_FOUND';
  }
}

/**
 * Throws {@link Failure} when the namespace that a command was told of does not exist: it has nothing because it is
 * misspelt.
 */
export async function requireNamespace(client: Client, namespace: string | undefined): Promise<void> {
  if (await isNewNamespace(client, namespace)) throw new Failure(`there is no namespace "${namespace}"`);
}

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

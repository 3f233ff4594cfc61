import { ApiError, type Client, payload } from '@sluice/contract/client';
import { isJsonObject } from '@sluice/json/lossless';
import { Failure } from '../failure.ts';
import type { Contents } from './step.ts';
import { contentsText } from './words.ts';

/**
 * Deletes a namespace with exactly what the plan has shown to be in it. Throws {@link Failure} when something else is in
 * it by now, and changes nothing then.
 */
export async function removeNamespace(client: Client, name: string, planned: Contents): Promise<void> {
  const remove = (cascade: boolean) =>
    payload(
      client.DELETE('/api/v1/namespaces/{name}', {
        params: { path: { name }, query: cascade ? { cascade: 'true' } : {} },
      }),
    );
  try {
    await remove(false);
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== 'CONFLICT' || !isJsonObject(error.details)) throw error;
    const now = error.details;
    const differs = Object.entries(planned).some(([what, count]) => now[what] !== count);
    if (differs) {
      throw new Failure(`namespace ${name} holds ${contentsText(now)} now, which is not what was planned`, {
        cause: error,
      });
    }
    await remove(true);
  }
}

import { createClient } from '@sluice/contract/client';
import { expect, test } from 'vitest';
import { ServiceState } from './service-state.ts';

const DESIRED = { warnings: [], body: {}, positionOf: () => undefined };

/** The state of a service that responds with these headers to a dry run. */
function serviceState(headers: Record<string, string>): ServiceState {
  const body = { data: { dryRun: true, changes: [] }, error: null };
  const client = createClient({ host: 'http://service.test', fetch: async () => Response.json(body, { headers }) });
  return new ServiceState(client, DESIRED);
}

test('a plan has the ETag of its changes', async () => {
  expect(await serviceState({ etag: '"a"' }).plan()).toEqual({ changes: [], etag: '"a"' });
});

test('changes that have no ETag are not applied: others could be made', async () => {
  await expect(serviceState({}).plan()).rejects.toThrow('the response has no ETag');
});

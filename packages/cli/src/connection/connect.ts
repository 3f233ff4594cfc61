import { type Client, createClient } from '@sluice/contract/client';
import { resolveToken } from '../auth/bearer.ts';
import { createFetch, type Send } from '../http/fetch.ts';
import type { GlobalOptions } from '../options.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { notManagementApi, validateResponses } from './check-answer.ts';
import { EVENT_STREAM } from './event-stream.ts';

/**
 * The management API as the global options say. Throws `Failure` when there are no credentials to send, or they have
 * expired and are not to be renewed.
 */
export async function connect(
  options: GlobalOptions,
  terminal: Terminal,
  { renew } = { renew: true },
): Promise<Client> {
  const token = await resolveToken(options, terminal, renew);
  const client = createClient({
    host: options.host,
    fetch: requireApiResponse(await createFetch(options, terminal), options.host),
    ...(token !== undefined && { token }),
  });
  validateResponses(client, options.host);
  return client;
}

/** The API answers in JSON unless it is asked for events. A page instead is of something else, such as a log-in. */
function requireApiResponse(send: Send, host: string): Send {
  return async (request) => {
    const response = await send(request);
    const wanted = request.headers.get('accept') === EVENT_STREAM ? EVENT_STREAM : 'application/json';
    if (!response.ok || response.headers.get('content-type')?.startsWith(wanted)) return response;
    await response.body?.cancel();
    throw notManagementApi(host);
  };
}

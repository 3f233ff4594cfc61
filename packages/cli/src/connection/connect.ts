import { allOperations } from '@sluice/contract';
import { type Client, createClient } from '@sluice/contract/client';
import { resolveToken } from '../auth/access-token.ts';
import { Failure } from '../failure.ts';
import { createFetch, type Send } from '../http/fetch.ts';
import type { GlobalOptions } from '../options.ts';
import type { Terminal } from '../terminal/terminal.ts';

/** Media type of a stream of server-sent events. */
export const EVENT_STREAM = 'text/event-stream';

/** Issues that mean a wrong shape. Others, such as a value of a later version, do not prevent printing. */
const SHAPE_ISSUES = ['invalid_type', 'invalid_union'];
const MAX_NOTES = 3;

/** Error for a host that is not the management API; `notes` describe the response. */
export function notManagementApi(host: string, notes: readonly string[] = []): Failure {
  return new Failure(`${host} is not the management API: check the address and whether you are logged in`, { notes });
}

/** Rejects responses without the members that the API guarantees, so that commands never print missing data. */
function validateResponses(client: Client, host: string): void {
  client.use({
    async onResponse({ request, response, schemaPath }) {
      const operation = allOperations.find(({ method, path }) => method === request.method && path === schemaPath);
      const expected = operation?.responses[response.status];
      // Events are validated one by one by their reader.
      if (expected === undefined || expected.eventStream) return undefined;
      const body = parseBody(await response.clone().text(), host);
      // Check only the members of the requested items: a service of another version may differ in nested ones.
      const depth = Array.isArray(Object(body).data) ? 2 : 1;
      const payload = expected.raw ? body : Object(body).data;
      const { success, error } = expected.data.safeParse(payload);
      const issues = success
        ? []
        : error.issues.filter(({ code, path }) => SHAPE_ISSUES.includes(code) && path.length <= depth);
      if (issues.length === 0) return undefined;
      throw notManagementApi(
        host,
        issues.slice(0, MAX_NOTES).map(({ path, message }) => [...path.map(String), message].join(': ')),
      );
    },
  });
}

function parseBody(text: string, host: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw notManagementApi(host, ['invalid JSON']);
  }
}

/**
 * Connects to the management API with the global options. Throws `Failure` when there are no credentials, or they have
 * expired and must not be renewed.
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

/** The API returns JSON or events. Any other content type comes from something else, such as a login page. */
function requireApiResponse(send: Send, host: string): Send {
  return async (request) => {
    const response = await send(request);
    const wanted = request.headers.get('accept') === EVENT_STREAM ? EVENT_STREAM : 'application/json';
    if (!response.ok || response.headers.get('content-type')?.startsWith(wanted)) return response;
    await response.body?.cancel();
    throw notManagementApi(host);
  };
}

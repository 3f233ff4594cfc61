import { allOperations } from '@sluice/contract';
import { type Client, createClient } from '@sluice/contract/client';
import { resolveToken } from '../auth/access-token.ts';
import { Failure } from '../failure.ts';
import { createFetch, type Send } from '../http/fetch.ts';
import type { GlobalOptions } from '../options.ts';
import type { Terminal } from '../terminal/terminal.ts';

/** Media type of a stream of server-sent events. */
export const EVENT_STREAM = 'text/event-stream';

/** Any of them: what does not belong where it is. Others, such as a value of later versions, may be printed all the same. */
const WRONG_SHAPE = ['invalid_type', 'invalid_union'];
const MAX_NOTES = 3;

/** What is thrown when something else than the API answers at the host; `notes` say what is wrong with the answer. */
export function notManagementApi(host: string, notes: readonly string[] = []): Failure {
  return new Failure(
    `what answers at ${host} is not the management API: is it the right address, and are you logged in?`,
    { notes },
  );
}

/** Refuses answers that miss what the API's have, so that no command prints or reports what is not there. */
export function validateResponses(client: Client, host: string): void {
  client.use({
    async onResponse({ request, response, schemaPath }) {
      const operation = allOperations.find(({ method, path }) => method === request.method && path === schemaPath);
      const answer = operation?.responses[response.status];
      // Events are looked at one by one, by who reads them.
      if (answer === undefined || answer.eventStream) return undefined;
      const body = parseBody(await response.clone().text(), host);
      // The members of what is asked for. What is missing deeper down is a service of another version.
      const depth = Array.isArray(Object(body).data) ? 2 : 1;
      const payload = answer.raw ? body : Object(body).data;
      const { success, error } = answer.data.safeParse(payload);
      const issues = success
        ? []
        : error.issues.filter(({ code, path }) => WRONG_SHAPE.includes(code) && path.length <= depth);
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
    throw notManagementApi(host, ['it is not JSON']);
  }
}

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

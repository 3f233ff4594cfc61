import { type Client, createClient, findShapeIssues, responseShapes } from '@sluice/contract/client';
import { resolveToken } from '../auth/access-token.ts';
import { Failure } from '../failure.ts';
import { createFetch, requiresTls, type Send } from '../http/fetch.ts';
import type { GlobalOptions } from '../options.ts';
import type { Terminal } from '../terminal/terminal.ts';

/** Media type of a stream of server-sent events. */
export const EVENT_STREAM = 'text/event-stream';
/** Media type of backups. */
export const GZIP = 'application/gzip';

const MAX_NOTES = 3;

/** Error for a host whose response does not have the form of the management API; `notes` say what it lacks. */
export function notManagementApi(host: string, notes: readonly string[] = []): Failure {
  return new Failure(`${host} is not the management API: check the address and whether you are logged in`, { notes });
}

/** Error for a host that is another web server, or a login page of a proxy. */
function otherWebServer(host: string, { status, headers }: Response): Failure {
  const type = headers.get('content-type')?.split(';', 1)[0];
  const found = [String(status), type, headers.get('server')].filter((part) => part).join(', ');
  return new Failure(`${host} is not the management API but another web server (${found})`, {
    notes: ['check the address, whose port is 8080 by default, and whether you are logged in'],
  });
}

/** Rejects responses without the members that the API guarantees, so that commands never print missing data. */
function validateResponses(client: Client, host: string): void {
  client.use({
    async onResponse({ request, response, schemaPath }) {
      const shape = responseShapes[`${request.method} ${schemaPath} ${response.status}`];
      // Events are validated one by one by their reader, and so are files.
      if (shape === undefined) return undefined;
      const issues = findShapeIssues(shape, parseBody(await response.clone().text(), host));
      if (issues.length > 0) throw notManagementApi(host, issues.slice(0, MAX_NOTES));
      return undefined;
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
 * Connects to the management API with the global options. Throws `Failure` when the stored login has expired and cannot
 * or must not be renewed. `wrap` wraps the function that sends requests.
 */
export async function connect(
  options: GlobalOptions,
  terminal: Terminal,
  { renew } = { renew: true },
  wrap = (send: Send): Send => send,
): Promise<Client> {
  const token = await resolveToken(options, terminal, renew);
  const client = createClient({
    host: options.host,
    fetch: wrap(requireApiResponse(await createFetch(options, terminal), options.host)),
    ...(token !== undefined && { token }),
  });
  validateResponses(client, options.host);
  return client;
}

/** Errors that proxies do not return by themselves, so that another server must have done it. */
const OTHER_SERVER_STATUSES = [400, 404, 405, 501];
/** Response of web servers to plain HTTP on a port for TLS. */
const PLAIN_HTTP_REJECTED = /plain HTTP request was sent to HTTPS port|HTTP request to an HTTPS server/;

/** The API returns JSON or events. Any other content type comes from something else, such as a login page. */
function requireApiResponse(send: Send, host: string): Send {
  return async (request) => {
    const response = await send(request);
    const type = response.headers.get('content-type') ?? '';
    const accepted = request.headers.get('accept');
    const wanted = accepted === EVENT_STREAM || accepted === GZIP ? accepted : 'application/json';
    if (response.ok ? type.startsWith(wanted) : !OTHER_SERVER_STATUSES.includes(response.status)) return response;
    if (!response.ok && (type === '' || type.startsWith('application/json'))) return response;
    const text = await response.text();
    if (PLAIN_HTTP_REJECTED.test(text)) throw requiresTls(host);
    throw otherWebServer(host, response);
  };
}

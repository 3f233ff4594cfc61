import { Agent, type IncomingHttpHeaders, request } from 'node:http';
import { asUser, initializedMessage, initializeMessage, type Message } from './messages.ts';

/** Complete response. */
export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** HTTP client with one connection per server and one request at a time. */
export interface Caller extends Disposable {
  post(url: URL, message: Message): Promise<Answer>;
  get(url: URL): Promise<Answer>;
  delete(url: URL): Promise<Answer>;
}

/** Creates a caller. Requests reject with connection errors. */
export function makeCaller(): Caller {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const send = (method: string, url: URL, headers: Readonly<Record<string, string>>, body: string) =>
    new Promise<Answer>((resolve, reject) => {
      const outgoing = request(url, { method, agent, headers: { ...headers } }, (res) => {
        let text = '';
        res.setEncoding('utf8');
        res.on('data', (chunk: string) => {
          text += chunk;
        });
        res.on('end', () => resolve({ status: res.statusCode ?? 0, headers: res.headers, body: text }));
        res.on('error', reject);
      });
      outgoing.on('error', reject);
      outgoing.end(body === '' ? undefined : body);
    });
  return {
    post: (url, { headers, body }) =>
      send('POST', url, { ...headers, 'Content-Length': String(Buffer.byteLength(body)) }, body),
    get: (url) => send('GET', url, {}, ''),
    delete: (url) => send('DELETE', url, {}, ''),
    [Symbol.dispose]: () => agent.destroy(),
  };
}

/** Opens a legacy session, of a user if one is given, and returns its id. */
export async function openSession(caller: Caller, url: URL, user?: string): Promise<string> {
  const opened = await caller.post(url, asUser(user, initializeMessage()));
  const session = opened.headers['mcp-session-id'];
  if (opened.status !== 200 || typeof session !== 'string') {
    throw new Error(`initialize at ${url}: status ${opened.status} without a session id: ${opened.body.slice(0, 200)}`);
  }
  const confirmed = await caller.post(url, asUser(user, initializedMessage(session)));
  if (confirmed.status !== 202) throw new Error(`notifications/initialized at ${url}: status ${confirmed.status}`);
  return session;
}

/** Parses JSON; returns undefined for invalid JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Returns the value at a path in objects and arrays; undefined if it does not exist. */
export function at(value: unknown, ...path: readonly (string | number)[]): unknown {
  let current = value;
  for (const key of path) {
    if (typeof current !== 'object' || current === null) return undefined;
    current = Object.getOwnPropertyDescriptor(current, key)?.value;
  }
  return current;
}

import { Agent, type IncomingHttpHeaders, request } from 'node:http';
import { initializedMessage, initializeMessage, type Message } from './messages.ts';

/** An answer read to its end. */
export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** One caller: a client that keeps one connection per server and sends one request at a time. */
export interface Caller extends Disposable {
  post(url: URL, message: Message): Promise<Answer>;
  get(url: URL): Promise<Answer>;
  delete(url: URL): Promise<Answer>;
}

/** Makes a caller. Refused and broken connections reject with the system's error. */
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

/** Opens a legacy session at an MCP endpoint and returns its id. */
export async function openSession(caller: Caller, url: URL): Promise<string> {
  const opened = await caller.post(url, initializeMessage());
  const session = opened.headers['mcp-session-id'];
  if (opened.status !== 200 || typeof session !== 'string') {
    throw new Error(`initialize at ${url}: status ${opened.status} without a session id: ${opened.body.slice(0, 200)}`);
  }
  const confirmed = await caller.post(url, initializedMessage(session));
  if (confirmed.status !== 202) throw new Error(`notifications/initialized at ${url}: status ${confirmed.status}`);
  return session;
}

/** Parses JSON text; `undefined` where it is none. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Follows `path` through objects and arrays; `undefined` where it leads nowhere. */
export function at(value: unknown, ...path: readonly (string | number)[]): unknown {
  let current = value;
  for (const key of path) {
    if (typeof current !== 'object' || current === null) return undefined;
    current = Object.getOwnPropertyDescriptor(current, key)?.value;
  }
  return current;
}

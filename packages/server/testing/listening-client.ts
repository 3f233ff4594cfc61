import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { EventStreamDecoder } from '@sluice/protocol/mcp/event-stream';

/** A modern client with a `subscriptions/listen` stream open. */
export interface ListeningClient {
  readonly response: IncomingMessage;
  /** Data of the events so far. */
  readonly events: readonly string[];
  /** Resolves with the first `count` events once they have arrived; rejects if the stream ends before. */
  first(count: number): Promise<readonly string[]>;
  /** Resolves when the stream has ended properly; rejects when it was aborted. */
  readonly ended: Promise<void>;
  /** Closes the connection. */
  disconnect(): void;
}

/** Optional settings of a client besides its subscriptions. */
export interface ListenOptions {
  /** JSON text of the request's id. */
  readonly id?: string;
  /** JSON text of its capabilities. */
  readonly capabilities?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

const META =
  '"io.modelcontextprotocol/protocolVersion":"2026-07-28",' +
  '"io.modelcontextprotocol/clientInfo":{"name":"listener","version":"1"}';

/** The headers that go with {@link listenText}. */
export const LISTEN_HEADERS: Readonly<Record<string, string>> = {
  'content-type': 'application/json',
  accept: 'application/json, text/event-stream',
  'mcp-protocol-version': '2026-07-28',
  'mcp-method': 'subscriptions/listen',
};

/** A `subscriptions/listen` request; `notifications` is its filter. */
export function listenText(notifications: unknown, id = '1', capabilities = '{}'): string {
  const meta = `{${META},"io.modelcontextprotocol/clientCapabilities":${capabilities}}`;
  const params = `{"notifications":${JSON.stringify(notifications)},"_meta":${meta}}`;
  return `{"jsonrpc":"2.0","id":${id},"method":"subscriptions/listen","params":${params}}`;
}

/** Opens the stream; resolves when its head has arrived. */
export async function listenTo(
  url: string,
  notifications: unknown,
  options: ListenOptions = {},
): Promise<ListeningClient> {
  const req = request(url, { method: 'POST', agent: false, headers: { ...LISTEN_HEADERS, ...options.headers } });
  req.end(listenText(notifications, options.id, options.capabilities));
  const [response]: IncomingMessage[] = await once(req, 'response');
  if (!response) throw new Error('no response');
  const events: string[] = [];
  let waiting: (() => void)[] = [];
  const wake = () => {
    const resolvers = waiting;
    waiting = [];
    for (const listener of resolvers) listener();
  };
  const decoder = new EventStreamDecoder({
    onEvent: ({ data }) => events.push(data),
    onEventError: (error) => response.destroy(error),
  });
  response.on('data', (chunk: Buffer) => {
    decoder.write(chunk);
    wake();
  });
  const ended = new Promise<void>((resolve, reject) => {
    response.once('end', resolve);
    response.once('error', reject);
  });
  ended.catch(() => undefined);
  response.once('close', wake);
  return {
    response,
    events,
    async first(count) {
      while (events.length < count) {
        if (response.closed) throw new Error(`the stream ended after ${events.length} events`);
        await new Promise<void>((resolve) => waiting.push(resolve));
      }
      return events.slice(0, count);
    },
    ended,
    disconnect: () => response.destroy(),
  };
}

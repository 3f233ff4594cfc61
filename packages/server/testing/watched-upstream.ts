import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import { encodeEvent } from '@sluice/protocol/mcp/event-stream';

/** One `subscriptions/listen` for resources received by a {@link WatchedUpstream}; the test writes its response. */
export interface WatchedStream {
  /** Its id as received, as JSON text. */
  readonly id: string;
  readonly headers: IncomingHttpHeaders;
  /** The request's `params`. */
  readonly params: Readonly<Record<string, unknown>>;
  readonly response: ServerResponse;
  /** True once the connection has closed before the response was complete. */
  readonly isDisconnected: boolean;
  /** Grants these uris. */
  acknowledge(...uris: readonly string[]): void;
  /** Sends one message. */
  send(message: string): void;
  /** Sends `notifications/resources/updated`; `more` is JSON text of further members of `params`, as in `"x":1.0`. */
  updated(uri: string, more?: string): void;
}

/** A modern upstream that supports resource subscriptions. */
export interface WatchedUpstream {
  readonly url: string;
  /** Contents of `resources/list`. */
  uris: readonly string[];
  /** Contents of `resources/templates/list`. */
  templates: readonly string[];
  /** Received subscriptions. */
  readonly streams: readonly WatchedStream[];
  close(): Promise<void>;
}

const LIST_END = '"resultType":"complete","ttlMs":0,"cacheScope":"private"}';
const DISCOVERED = `{"supportedVersions":["2026-07-28"],"capabilities":{"resources":{"subscribe":true}},${LIST_END}`;

/** Starts it on the loopback interface. */
export async function startWatchedUpstream(uris: readonly string[]): Promise<WatchedUpstream> {
  const streams: Stream[] = [];
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    const { id, method, params } = body === '' ? {} : JSON.parse(body);
    if (method === 'subscriptions/listen') {
      const stream = new Stream(body, request.headers, params, response);
      if (params.notifications?.resourceSubscriptions) streams.push(stream);
      else stream.acknowledge();
      return;
    }
    const results: Record<string, string> = {
      'server/discover': DISCOVERED,
      'resources/list': `{"resources":[${objects('uri', upstream.uris)}],${LIST_END}`,
      'resources/templates/list': `{"resourceTemplates":[${objects('uriTemplate', upstream.templates)}],${LIST_END}`,
    };
    const result = results[method];
    const reply =
      result === undefined ? '"error":{"code":-32022,"message":"modern only","data":{}}' : `"result":${result}`;
    response.writeHead(result === undefined ? 400 : 200, { 'content-type': 'application/json' });
    response.end(`{"jsonrpc":"2.0","id":${JSON.stringify(id) ?? 'null'},${reply}}`);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const upstream: WatchedUpstream = {
    url: `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}/mcp`,
    uris,
    templates: [],
    streams,
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
  return upstream;
}

class Stream implements WatchedStream {
  readonly id: string;
  readonly headers: IncomingHttpHeaders;
  readonly params: Readonly<Record<string, unknown>>;
  readonly response: ServerResponse;
  isDisconnected = false;

  constructor(
    body: string,
    headers: IncomingHttpHeaders,
    params: Readonly<Record<string, unknown>>,
    response: ServerResponse,
  ) {
    this.id = JSON.stringify(JSON.parse(body).id);
    this.headers = headers;
    this.params = params;
    this.response = response;
    response.once('close', () => {
      this.isDisconnected = !response.writableFinished;
    });
  }

  acknowledge(...uris: readonly string[]): void {
    const granted = JSON.stringify({ resourceSubscriptions: uris });
    this.response.writeHead(200, { 'content-type': 'text/event-stream' });
    const params = `{"_meta":${this.#meta()},"notifications":${granted}}`;
    this.send(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":${params}}`);
  }

  send(message: string): void {
    this.response.write(encodeEvent({ data: message }));
  }

  updated(uri: string, more = ''): void {
    const rest = more === '' ? '' : `,${more}`;
    const params = `{"uri":${JSON.stringify(uri)},"_meta":${this.#meta()}${rest}}`;
    this.send(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":${params}}`);
  }

  #meta(): string {
    return `{"io.modelcontextprotocol/subscriptionId":${this.id}}`;
  }
}

function objects(member: string, keys: readonly string[]): string {
  return keys.map((key) => JSON.stringify({ [member]: key, name: key })).join(',');
}

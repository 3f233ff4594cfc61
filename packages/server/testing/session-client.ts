import { type IncomingMessage, request } from 'node:http';
import { EventStreamDecoder, type ServerSentEvent } from '@sluice/protocol/mcp/event-stream';
import { LEGACY, post, type RawResponse, reply, send } from '../../../test/fixtures/raw-client.ts';

/** A client of the legacy era with a session, which reads its streams event by event. */
export interface SessionClient {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Sends a message and waits for the complete response. */
  post(body: string, headers?: Readonly<Record<string, string>>): Promise<RawResponse>;
  /** Sends a request; `params` is JSON text. The parsed response. */
  request(method: string, params?: string): Promise<Response>;
  /** Calls the tool `work`; `id` and `meta` (of `_meta`) are JSON text. The response is read as it arrives. */
  call(id: string, meta?: string, headers?: Readonly<Record<string, string>>): ResponseReader;
  /** Opens a notification stream, or resumes the stream of an event. */
  listen(lastEventId?: string, headers?: Readonly<Record<string, string>>): ResponseReader;
  /** Ends the session; returns the status. */
  end(): Promise<number>;
}

/** A JSON-RPC response. */
export interface Response {
  readonly id?: unknown;
  readonly result?: unknown;
  readonly error?: { readonly code: number; readonly message: string; readonly data?: unknown };
}

/** Optional settings of a client. */
export interface SessionClientOptions {
  readonly version?: string;
  /** JSON text. */
  readonly capabilities?: string;
}

/** Opens a session. Throws when that is rejected. `headers` go with every request. */
export async function sessionClient(
  url: string,
  { version = LEGACY, capabilities = '{}' }: SessionClientOptions = {},
  headers: Readonly<Record<string, string>> = {},
): Promise<SessionClient> {
  const params = `{"protocolVersion":"${version}","capabilities":${capabilities},"clientInfo":{"name":"raw","version":"1"}}`;
  const opened = await post(url, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":${params}}`, headers);
  const session = opened.headers['mcp-session-id'];
  if (typeof session !== 'string') throw new Error(`initialize: ${opened.status} ${opened.text}`);
  return clientOf(url, { ...headers, 'mcp-protocol-version': version, 'mcp-session-id': session });
}

/** A client that sends these headers, including a session id if given. */
export function clientOf(url: string, sessionHeaders: Readonly<Record<string, string>>): SessionClient {
  let lastId = 0;
  return {
    url,
    headers: sessionHeaders,
    post: (body, headers) => post(url, body, { ...sessionHeaders, ...headers }),
    async request(method, params = '{}') {
      const response = await post(
        url,
        `{"jsonrpc":"2.0","id":${++lastId},"method":"${method}","params":${params}}`,
        sessionHeaders,
      );
      return JSON.parse(reply(response));
    },
    call: (id, meta = '', headers) =>
      new ResponseReader(url, 'POST', { ...STREAMS, ...sessionHeaders, ...headers }, callText(id, meta)),
    listen: (lastEventId, headers) =>
      new ResponseReader(url, 'GET', {
        accept: 'text/event-stream',
        ...sessionHeaders,
        ...headers,
        ...(lastEventId !== undefined && { 'last-event-id': lastEventId }),
      }),
    end: async () => (await send(url, 'DELETE', sessionHeaders)).status,
  };
}

const STREAMS = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };

/** A call of the tool `work`, as JSON text. */
export function callText(id: string, meta = ''): string {
  return `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"work","_meta":{${meta}}}}`;
}

/** One HTTP response while it is being read. */
export class ResponseReader {
  /** Resolves when the head has arrived; rejects when there will be none. */
  readonly head: Promise<IncomingMessage>;
  /** Resolves when the response has ended: true when it is complete. */
  readonly ended: Promise<boolean>;
  readonly events: ServerSentEvent[] = [];
  /** All text so far. */
  text = '';
  readonly #destroy: () => void;
  #waiting: (() => void)[] = [];
  #ended = false;
  #json = false;

  constructor(url: string, method: string, headers: Readonly<Record<string, string>>, body?: string) {
    const head = Promise.withResolvers<IncomingMessage>();
    const over = Promise.withResolvers<boolean>();
    this.head = head.promise;
    this.ended = over.promise;
    const decoder = new EventStreamDecoder({ onEvent: (event) => this.events.push(event), onEventError: () => {} });
    const end = (well: boolean) => {
      this.#ended = true;
      over.resolve(well);
      this.#wake();
    };
    const req = request(url, { method, headers, agent: false }, (response) => {
      this.#json = response.headers['content-type'] === 'application/json';
      head.resolve(response);
      response.on('data', (chunk: Buffer) => {
        this.text += chunk.toString('utf8');
        decoder.write(chunk);
        this.#wake();
      });
      response.once('close', () => end(response.complete));
      response.on('error', () => undefined);
    });
    req.on('error', (error) => {
      head.reject(error);
      end(false);
    });
    head.promise.catch(() => undefined);
    this.#destroy = () => req.destroy();
    req.end(body);
  }

  /** Non-empty data of the events, or the text of a response that is not a stream. */
  get messages(): string[] {
    if (this.#json) return this.#ended ? [this.text] : [];
    return this.events.map(({ data }) => data).filter((data) => data !== '');
  }

  /** The message with this index once it has arrived; rejects when the response ends before. */
  async message(number: number): Promise<string> {
    return this.#until(() => this.messages[number]);
  }

  /** The event of this number, also one without data. */
  async event(number: number): Promise<ServerSentEvent> {
    return this.#until(() => this.events[number]);
  }

  /** Resolves once the text so far matches. */
  async matching(pattern: RegExp): Promise<void> {
    await this.#until(() => pattern.exec(this.text));
  }

  /** Resolves once this many events of a type have arrived. */
  async count(type: string, count: number): Promise<void> {
    let [at, seen] = [0, 0];
    await this.#until(() => {
      for (; at < this.events.length; at++) if (this.events[at]?.event === type) seen++;
      return seen >= count || undefined;
    });
  }

  /** The last event's id. */
  get lastId(): string {
    return this.events.findLast(({ id }) => id !== undefined)?.id ?? '';
  }

  /** Closes the connection. */
  disconnect(): void {
    this.#destroy();
  }

  async #until<T>(look: () => T | null | undefined): Promise<T> {
    for (;;) {
      const found = look();
      if (found !== undefined && found !== null) return found;
      if (this.#ended) throw new Error(`the response ended with ${JSON.stringify(this.text)}`);
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }

  #wake(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const listener of waiting) listener();
  }
}

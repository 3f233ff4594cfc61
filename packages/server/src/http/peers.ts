import { Readable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { BodyReader } from './client/collect-response.ts';
import type { ResponseLike } from './exchange.ts';
import type { PeerClient } from './peer-client.ts';
import { drainRequestBody } from './request-body.ts';
import { sendBody } from './response-body.ts';
import type { ServerRequest } from './server/request.ts';

/** What a replica responds to a query of another one, each piece made when the one before was sent. */
export type QueryHandler = (query: URLSearchParams) => Iterable<Buffer> | Promise<Iterable<Buffer>>;

/** Handlers by method and path: `GET /tool-calls`. */
export type QueryHandlers = Readonly<Record<string, QueryHandler>>;

/** Responds to a query of another replica. */
export function serveQuery(handlers: QueryHandlers, request: ServerRequest, response: ResponseLike): void {
  drainRequestBody(request);
  const { method, url } = request;
  const { pathname, searchParams } = new URL(url, 'http://replica');
  const handler = handlers[`${method} ${pathname}`];
  void Promise.try(async () => {
    const found = await handler?.(searchParams);
    // A replica of another version may request what this one does not have.
    response.writeHead(found === undefined ? 404 : 200, []);
    await sendBody(Readable.from(found ?? [], { highWaterMark: 1 }), response);
  }).catch(() => response.destroy());
}

/** The responses of other replicas, and the ids of those that have not responded: what they have is missing. */
export interface PeerResponses<T> {
  readonly responses: readonly T[];
  readonly missingReplicas: readonly string[];
}

/** A response of another replica that is read while it arrives. */
export interface StreamedResponse {
  readonly replica: string;
  readonly body: AsyncIterable<Buffer>;
  /** Reads no more of it. */
  close(): void;
}

/** A query to the other replicas, whose handlers respond with `jsonLines`. */
export interface PeerQuery<Item> {
  readonly method?: 'GET' | 'DELETE';
  /** Path and query. */
  readonly target: string;
  /** Time for the whole response. */
  readonly timeoutMs: number;
  readonly maxBytes: number;
  /** Parses an item. If it throws, as for one of another version, the replica has not responded. */
  readonly parse: (item: unknown) => Item;
}

/** Options of {@link Peers}. */
export interface PeersOptions {
  /** Undefined without a listener for replicas: then none can be reached. */
  readonly client: Pick<PeerClient, 'query' | 'stream'> | undefined;
  /** Addresses of the other live replicas by id; null for those that cannot be reached. */
  readonly addresses: () => ReadonlyMap<string, string | null>;
  readonly log: { warn(message: string, fields?: Record<string, unknown>): void };
}

/** The other replicas, which are queried for what each of them has in memory (docs/replicas.md). */
export class Peers {
  readonly #options: PeersOptions;
  /** Ids of those that did not respond the last time. */
  #silent = '';

  constructor(options: PeersOptions) {
    this.#options = options;
  }

  /** Queries all of them, in bounded time. Returns the items of each. */
  query<Item>({ method = 'GET', target, timeoutMs, maxBytes, parse }: PeerQuery<Item>) {
    return this.#all(async (_, address, client): Promise<readonly Item[]> => {
      const items: Item[] = [];
      const lines = new LineReader((line) => items.push(parse(JSON.parse(line))));
      await client.query(address, { method, target }, { timeoutMs, maxBytes, onHead: () => lines.read });
      lines.end();
      return items;
    });
  }

  /** Queries all of them for responses that are read while they arrive. Those that have not begun in time are missing. */
  stream(target: string, timeoutMs: number): Promise<PeerResponses<StreamedResponse>> {
    return this.#all(async (replica, address, client) => {
      const begun = new AbortController();
      const timer = setTimeout(() => begun.abort(), timeoutMs);
      try {
        const body = await client.stream(address, { method: 'GET', target }, begun.signal);
        return { replica, body: chunksOf(body, timeoutMs), close: () => void body.destroy() };
      } finally {
        clearTimeout(timer);
      }
    });
  }

  async #all<T>(
    query: (replica: string, address: string, client: Pick<PeerClient, 'query' | 'stream'>) => Promise<T>,
  ): Promise<PeerResponses<T>> {
    const { client, addresses } = this.#options;
    const responses: T[] = [];
    const missingReplicas: string[] = [];
    const queries = Array.from(addresses(), async ([replica, address]) => {
      try {
        if (!client || address === null) throw new Error('it cannot be reached');
        responses.push(await query(replica, address, client));
      } catch {
        missingReplicas.push(replica);
      }
    });
    await Promise.all(queries);
    this.#report(missingReplicas.sort());
    return { responses, missingReplicas };
  }

  #report(missingReplicas: readonly string[]): void {
    const silent = missingReplicas.join(', ');
    if (silent !== this.#silent && silent !== '') {
      this.#options.log.warn('replicas did not respond', { replicas: silent });
    }
    this.#silent = silent;
  }
}

/**
 * The chunks of a response, which ends with an error if the next one does not arrive in time, or if nobody begins to read it: the
 * client that it is for may have disconnected.
 */
function chunksOf(body: Readable, timeoutMs: number): AsyncIterable<Buffer> {
  const wait = () => setTimeout(() => body.destroy(new Error('response timed out')), timeoutMs);
  let timer = wait();
  body.once('close', () => clearTimeout(timer));
  return (async function* () {
    for await (const chunk of body) {
      clearTimeout(timer);
      yield chunk;
      timer = wait();
    }
  })();
}

/** Bytes that are parsed without yielding to the event loop. */
const BYTES_PER_TURN = 512 * 1024;

/** Reads the lines of a response while it arrives. */
class LineReader {
  readonly #onLine: (line: string) => void;
  readonly #decoder = new StringDecoder();
  #line = '';
  #bytes = 0;

  /** What `onLine` throws ends the response. */
  constructor(onLine: (line: string) => void) {
    this.#onLine = onLine;
  }

  read: BodyReader = (chunk) => {
    this.#bytes += chunk.length;
    if (this.#bytes <= BYTES_PER_TURN) return this.#readLines(chunk);
    this.#bytes = 0;
    return nextTurn().then(() => this.#readLines(chunk));
  };

  /** Throws if the last line is not complete. */
  end(): void {
    if (this.#line !== '') throw new Error('incomplete response');
  }

  #readLines(chunk: Buffer): false {
    const [first = '', ...others] = this.#decoder.write(chunk).split('\n');
    this.#line += first;
    for (const next of others) {
      this.#onLine(this.#line);
      this.#line = next;
    }
    return false;
  }
}

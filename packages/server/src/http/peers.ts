import { Readable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { drainRequestBody } from './collect-body.ts';
import type { ResponseLike } from './exchange.ts';
import type { PeerClient, QueryRequest } from './peer-client.ts';
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
  readonly client: Pick<PeerClient, 'query'> | undefined;
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
    return this.#all({ method, target }, timeoutMs, async (body, leftMs): Promise<readonly Item[]> => {
      const items: Item[] = [];
      await readLines(chunksOf(body, leftMs, true), maxBytes, (line) => items.push(parse(JSON.parse(line))));
      return items;
    });
  }

  /** Queries all of them for responses that are read while they arrive. Those that have not begun in time are missing. */
  stream(target: string, timeoutMs: number): Promise<PeerResponses<StreamedResponse>> {
    return this.#all({ method: 'GET', target }, timeoutMs, async (body, _, replica) => ({
      replica,
      body: chunksOf(body, timeoutMs, false),
      close: () => void body.destroy(),
    }));
  }

  /** `read` gets each response that has begun in time, and the rest of that time. */
  async #all<T>(
    request: QueryRequest,
    timeoutMs: number,
    read: (body: Readable, leftMs: number, replica: string) => Promise<T>,
  ): Promise<PeerResponses<T>> {
    const { client, addresses } = this.#options;
    const responses: T[] = [];
    const missingReplicas: string[] = [];
    const queries = Array.from(addresses(), async ([replica, address]) => {
      try {
        if (!client || address === null) throw new Error('it cannot be reached');
        const startedAt = performance.now();
        const body = client.query(address, request);
        const timer = setTimeout(() => body.destroy(new Error('it did not respond in time')), timeoutMs);
        const { status } = await body.head.finally(() => clearTimeout(timer));
        if (status !== 200) body.destroy(new Error(`it responded with status ${status}`));
        responses.push(await read(body, startedAt + timeoutMs - performance.now(), replica));
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
 * The chunks of a response, which ends with an error if waiting for the next one takes too long, or with `isTotal` for all of them,
 * or if nobody begins to read it: the client that it is for may have disconnected.
 */
function chunksOf(body: Readable, timeoutMs: number, isTotal: boolean): AsyncIterable<Buffer> {
  let leftMs = timeoutMs;
  const wait = () => setTimeout(() => body.destroy(new Error('response timed out')), leftMs);
  let timer = wait();
  body.once('close', () => clearTimeout(timer));
  return (async function* () {
    let since = performance.now();
    for await (const chunk of body) {
      clearTimeout(timer);
      if (isTotal) leftMs -= performance.now() - since;
      yield chunk;
      since = performance.now();
      timer = wait();
    }
  })();
}

/** Bytes that are parsed without yielding to the event loop. */
const BYTES_PER_TURN = 512 * 1024;

/** Reads lines while they arrive. Throws what `onLine` throws, and if there are too many bytes or the last line is not complete. */
async function readLines(chunks: AsyncIterable<Buffer>, maxBytes: number, onLine: (line: string) => void) {
  const decoder = new StringDecoder();
  let line = '';
  let bytes = 0;
  let parsedBytes = 0;
  for await (const chunk of chunks) {
    bytes += chunk.length;
    if (bytes > maxBytes) throw new Error('too large response');
    if (bytes - parsedBytes > BYTES_PER_TURN) {
      parsedBytes = bytes;
      await nextTurn();
    }
    const [first = '', ...others] = decoder.write(chunk).split('\n');
    line += first;
    for (const next of others) {
      onLine(line);
      line = next;
    }
  }
  if (line !== '') throw new Error('incomplete response');
}

import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { ResponseLike } from './exchange.ts';
import type { Peers } from './peers.ts';
import { drainRequestBody } from './request-body.ts';
import { sendBody } from './response-body.ts';
import type { ServerRequest } from './server/request.ts';

/** What a replica answers about itself when another one asks, each piece made when the one before was sent. */
export type View = (query: URLSearchParams) => Iterable<Buffer> | Promise<Iterable<Buffer>>;

/** Views by method and path: `GET /tool-calls`. */
export type Views = Readonly<Record<string, View>>;

/** Answers another replica. */
export function serveView(views: Views, request: ServerRequest, response: ResponseLike): void {
  drainRequestBody(request);
  const { method, url } = request;
  const { pathname, searchParams } = new URL(url, 'http://replica');
  const view = views[`${method} ${pathname}`];
  void Promise.try(async () => {
    const found = await view?.(searchParams);
    // One of another version may ask for what this one does not have.
    response.writeHead(found === undefined ? 404 : 200, []);
    await sendBody(Readable.from(found ?? [], { highWaterMark: 1 }), response);
  }).catch(() => response.destroy());
}

/** What the other replicas have answered, and the ids of those that have not: what they have is missing. */
export interface Answers<T> {
  readonly answers: readonly T[];
  readonly unanswered: readonly string[];
}

/** An answer of another replica that is read while it arrives. */
export interface StreamedAnswer {
  readonly replica: string;
  readonly body: AsyncIterable<Buffer>;
  /** Reads no more of it. */
  close(): void;
}

/** A question to the other replicas, which is answered with `jsonLines`. */
export interface Question<Item> {
  readonly method?: 'GET' | 'DELETE';
  /** Path and query of the view. */
  readonly target: string;
  /** Time for the whole answer. */
  readonly timeoutMs: number;
  readonly maxBytes: number;
  /** Parses an item. If it throws, as for one of another version, the replica has not answered. */
  readonly parse: (item: unknown) => Item;
}

/** Options of {@link OtherReplicas}. */
export interface OtherReplicasOptions {
  /** Undefined without a listener for replicas: then none can be asked. */
  readonly peers: Pick<Peers, 'ask'> | undefined;
  /** Addresses of the other live replicas by id; null for those that cannot be reached. */
  readonly others: () => ReadonlyMap<string, string | null>;
  readonly log: { warn(message: string, fields?: Record<string, unknown>): void };
}

/** The other replicas, which are asked for what each of them has in memory (docs/replicas.md). */
export class OtherReplicas {
  readonly #options: OtherReplicasOptions;
  /** Ids of those that did not answer the last time. */
  #silent = '';

  constructor(options: OtherReplicasOptions) {
    this.#options = options;
  }

  /** Asks all of them, in bounded time. Returns the items of each. */
  async ask<Item>(question: Question<Item>): Promise<Answers<readonly Item[]>> {
    const { method = 'GET', target, timeoutMs } = question;
    const deadline = AbortSignal.timeout(timeoutMs);
    return await this.#all(async (_, address) =>
      readItems(await this.#send(address, method, target, deadline), question),
    );
  }

  /** Asks all of them for answers that are read while they arrive. Those that have not begun in time count as unanswered. */
  open(target: string, timeoutMs: number): Promise<Answers<StreamedAnswer>> {
    return this.#all(async (replica, address) => {
      const begun = new AbortController();
      const timer = setTimeout(() => begun.abort(), timeoutMs);
      try {
        const body = await this.#send(address, 'GET', target, begun.signal);
        return { replica, body: chunksOf(body, timeoutMs), close: () => void body.destroy() };
      } finally {
        clearTimeout(timer);
      }
    });
  }

  async #all<T>(ask: (replica: string, address: string) => Promise<T>): Promise<Answers<T>> {
    const answers: T[] = [];
    const unanswered: string[] = [];
    const requests = Array.from(this.#options.others(), async ([replica, address]) => {
      try {
        if (address === null) throw new Error('it has no address');
        answers.push(await ask(replica, address));
      } catch {
        unanswered.push(replica);
      }
    });
    await Promise.all(requests);
    this.#report(unanswered.sort());
    return { answers, unanswered };
  }

  #send(address: string, method: 'GET' | 'DELETE', target: string, signal: AbortSignal): Promise<IncomingMessage> {
    const { peers } = this.#options;
    if (!peers) return Promise.reject(new Error('there is no listener for replicas'));
    return peers.ask(address, { method, target, signal });
  }

  #report(unanswered: readonly string[]): void {
    const silent = unanswered.join(', ');
    if (silent !== this.#silent && silent !== '') {
      this.#options.log.warn('replicas did not respond', { replicas: silent });
    }
    this.#silent = silent;
  }
}

/**
 * The chunks of an answer, which ends with an error if the next one does not arrive in time, or if nobody begins to read it: the
 * client that it is for may have left.
 */
function chunksOf(message: IncomingMessage, timeoutMs: number): AsyncIterable<Buffer> {
  const wait = () => setTimeout(() => message.destroy(new Error('response timed out')), timeoutMs);
  let timer = wait();
  message.once('close', () => clearTimeout(timer));
  return (async function* () {
    for await (const chunk of message) {
      clearTimeout(timer);
      yield chunk;
      timer = wait();
    }
  })();
}

/** Bytes that are parsed without yielding to the event loop. */
const BYTES_PER_TURN = 512 * 1024;

/** Reads the items of an answer while it arrives. Rejects if it is too large or incomplete, and with what `parse` throws. */
async function readItems<Item>(message: IncomingMessage, { maxBytes, parse }: Question<Item>): Promise<Item[]> {
  const items: Item[] = [];
  const decoder = new StringDecoder();
  let bytes = 0;
  let turnEnd = BYTES_PER_TURN;
  let line = '';
  for await (const chunk of message) {
    bytes += chunk.length;
    if (bytes > maxBytes) throw new Error('response too large');
    if (bytes > turnEnd) {
      turnEnd = bytes + BYTES_PER_TURN;
      await nextTurn();
    }
    const [first = '', ...others] = decoder.write(chunk).split('\n');
    line += first;
    for (const next of others) {
      items.push(parse(JSON.parse(line)));
      line = next;
    }
  }
  if (line !== '') throw new Error('incomplete response');
  return items;
}

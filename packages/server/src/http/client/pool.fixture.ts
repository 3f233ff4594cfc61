import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { onTestFinished, vi } from 'vitest';
import { localhostCertificate } from './certificate.fixture.ts';
import type { RawHeaders, ResponseHandler, ResponseHeaders, UpstreamCall, UpstreamRequest } from './client.ts';
import type { UpstreamError } from './errors.ts';
import { ConnectionPool } from './pool.ts';

/** An upstream that reads requests as bytes and writes what the test specifies. */
export interface Upstream {
  readonly port: number;
  /** All connections ever accepted, in order. */
  readonly sockets: Socket[];
  /** Every request so far as latin1, bodies included, in order. */
  readonly requests: string[];
  /** Resolves when this many requests have been received. */
  requested(count: number): Promise<void>;
  /** Resolves when the connection with this index is closed. */
  closed(index: number): Promise<void>;
}

/** Starts one; `answer` is called for every whole request with the socket and the number of previous requests. */
export async function startUpstream(response: (socket: Socket, index: number) => void, tls = false): Promise<Upstream> {
  const sockets: Socket[] = [];
  const closings: PromiseWithResolvers<void>[] = [];
  const requests: string[] = [];
  const waiting: { count: number; resolve: () => void }[] = [];
  const closing = (index: number) => (closings[index] ??= Promise.withResolvers());
  const accept = (socket: Socket) => {
    const index = sockets.push(socket) - 1;
    let input = '';
    socket.on('error', () => undefined);
    socket.on('close', () => closing(index).resolve());
    socket.setEncoding('latin1').on('data', (text: string) => {
      input += text;
      for (let length = requestLength(input); length > 0; length = requestLength(input)) {
        const count = requests.push(input.slice(0, length));
        input = input.slice(length);
        for (const waiter of waiting) if (count >= waiter.count) waiter.resolve();
        response(socket, count - 1);
      }
    });
  };
  const server: Server = tls
    ? createTlsServer({ ...localhostCertificate, ALPNProtocols: ['h2', 'http/1.1'] }, accept)
    : createServer(accept);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('not a TCP address');
  return {
    port: address.port,
    sockets,
    requests,
    requested: async (count) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      if (requests.length >= count) return;
      waiting.push({ count, resolve });
      await promise;
    },
    closed: (index) => closing(index).promise,
  };
}

/** Length of the request at the start of the input; 0 while it is incomplete. */
function requestLength(input: string): number {
  const end = input.indexOf('\r\n\r\n');
  if (end < 0) return 0;
  const head = input.slice(0, end + 2);
  if (head.includes('\r\ntransfer-encoding: chunked\r\n')) return chunksEnd(input, end + 4);
  const length = end + 4 + Number(/\r\ncontent-length: (\d+)/.exec(head)?.[1] ?? 0);
  return input.length >= length ? length : 0;
}

/** End of the chunks that start at `at`; 0 while the last one is missing. */
function chunksEnd(input: string, at: number): number {
  for (let start = at; start < input.length; ) {
    const line = input.indexOf('\r\n', start);
    if (line < 0) return 0;
    const size = Number.parseInt(input.slice(start, line), 16);
    start = line + 2 + size + 2;
    if (size === 0) return start <= input.length ? start : 0;
  }
  return 0;
}

/** The pool of an upstream, destroyed when the test is over. */
export function pool(
  upstream: Pick<Upstream, 'port'>,
  options: ConstructorParameters<typeof ConnectionPool>[1] = {},
  origin?: string,
) {
  const made = new ConnectionPool(new URL(origin ?? `http://127.0.0.1:${upstream.port}/mcp`), options);
  onTestFinished(() => made.destroy());
  return made;
}

/** Freezes time for the test, except where it advances it; sockets continue. */
export function stopTime(): void {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  onTestFinished(() => void vi.useRealTimers());
}

/** One request with everything that was called back; `done` resolves at the end or error. */
export class Sent implements ResponseHandler {
  readonly call: UpstreamCall;
  readonly done: Promise<this>;
  /** The callbacks, in order. */
  readonly log: string[] = [];
  status = 0;
  headers: ResponseHeaders = {};
  raw: RawHeaders = [];
  reason = '';
  body = '';
  error: UpstreamError | undefined = undefined;
  /** Action at a callback; its result for data is that of `onData`. */
  readonly #react: (event: string, sent: Sent) => boolean | undefined;
  readonly #done = Promise.withResolvers<this>();

  constructor(
    to: ConnectionPool,
    request: Partial<UpstreamRequest> = {},
    react: (event: string, sent: Sent) => boolean | undefined = () => undefined,
  ) {
    this.#react = react;
    this.done = this.#done.promise;
    this.call = to.dispatch({ method: 'POST', headers: [], body: '{}', ...request }, this);
    this.log.push('dispatched');
  }

  onHead(status: number, headers: ResponseHeaders, raw: RawHeaders, reason: string): void {
    Object.assign(this, { status, headers, raw, reason });
    this.#note('head');
  }

  onData(chunk: Buffer): boolean {
    this.body += chunk.toString('latin1');
    return this.#note('data') !== false;
  }

  onEnd(): void {
    this.#note('end');
    this.#done.resolve(this);
  }

  onError(error: UpstreamError): void {
    this.error = error;
    this.#note('error');
    this.#done.resolve(this);
  }

  #note(event: string): boolean | undefined {
    this.log.push(event);
    return this.#react(event, this);
  }
}

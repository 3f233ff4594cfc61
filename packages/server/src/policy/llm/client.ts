import { isUtf8 } from 'node:buffer';
import { isJsonObject, tryParseJson } from '@sluice/protocol/json/parse';
import { z } from 'zod';
import { baseUrl } from '../../http/address.ts';
import type { UpstreamTransport } from '../../http/client/client.ts';
import { collectResponse } from '../../http/client/collect-response.ts';
import { CodingError } from '../../http/client/content-coding.ts';
import { EgressProxies, ProxyError } from '../../http/client/egress-proxies.ts';
import { UpstreamError } from '../../http/client/errors.ts';
import { createTransport } from '../../http/client/pool.ts';
import type { UpstreamSockets } from '../../http/client/upstream-sockets.ts';
import { Secrets } from '../../http/secrets/secrets.ts';
import { USER_AGENT } from '../../telemetry/version.ts';
import { BusyError, FairQueue, Turn } from '../fair-queue.ts';

/**
 * LLM connection of evaluators (specification, "LLM connection"). Responses, revisions and logs contain its name only; the
 * other members never leave the process.
 */
export interface LlmConnection {
  readonly name: string;
  readonly model: string;
  /** Base URL without a trailing slash. */
  readonly url: string;
  /** Bearer token, if there is one; may contain references to secrets. */
  readonly apiKey?: string;
}

const nonEmpty = z.string().trim().min(1, 'must not be empty');

/** Characters that are safe in a header value. */
const API_KEY = /^[\x21-\x7e]*$/;

/** An entry of `llm_connections` in the bootstrap file (decisions 1.3). */
export const llmConnectionEntry = z.object(
  {
    name: nonEmpty
      .max(256, 'must have at most 256 characters')
      .refine((name) => !/\p{Cc}/u.test(name), { error: 'must not contain control characters' }),
    model: nonEmpty,
    url: nonEmpty.pipe(baseUrl),
    // A key inserted by a template may end with a line break or be empty.
    api_key: z.string().trim().regex(API_KEY, 'must be printable ASCII without spaces').nullish(),
  },
  { error: 'must be a map with name, model and url' },
);

/**
 * Category of a failed LLM call (decisions 4.9, "Failure").
 *
 * - `network`: the connection failed or was closed before the response was complete
 * - `timeout`: the response was not complete in time
 * - `status`: a status other than 2xx; redirects are not followed
 * - `too-large`: a response over the limit
 * - `invalid`: a response that is not valid HTTP, UTF-8 or JSON
 * - `no-content`: a response without text in `choices[0].message.content`
 * - `request`: a request that cannot be sent
 * - `aborted`: canceled by this side
 */
export type LlmFault =
  | 'network'
  | 'timeout'
  | 'status'
  | 'too-large'
  | 'invalid'
  | 'no-content'
  | 'request'
  | 'aborted';

/**
 * A failed LLM call. The message contains the name of the connection, but neither its model, URL and key nor any content,
 * so it has no cause either.
 */
export class LlmError extends Error {
  override readonly name = 'LlmError';
  readonly fault: LlmFault;

  constructor(fault: LlmFault, connection: string, problem: string) {
    super(`llm connection ${JSON.stringify(connection)}: ${problem}`);
    this.fault = fault;
  }
}

/** Message of a prompt. */
export interface LlmMessage {
  readonly role: 'system' | 'user';
  readonly content: string;
}

/** Limits of one call, and the secrets of keys. */
export interface LlmLimits {
  /** Resolves references in the keys of connections (default: there are no secrets). */
  readonly secrets?: Secrets;
  /** Proxies for requests to models (default: there are none). */
  readonly proxies?: EgressProxies;
  /** Milliseconds for the whole call, including connecting (default 10 s, decisions 8). */
  readonly timeoutMs?: number;
  /** Bytes of a response body (default 1 MiB). */
  readonly maxBytes?: number;
  /** Concurrent calls of one endpoint (default 200). */
  readonly maxConcurrent?: number;
  /** Sockets of all upstreams. */
  readonly sockets?: UpstreamSockets | undefined;
}

/** Without it, any content coding would be acceptable (RFC 9110 12.5.3). One that comes nevertheless is decoded. */
const DEFAULT_HEADERS: readonly string[] = ['accept-encoding', 'identity', 'user-agent', USER_AGENT];
const TIMEOUT_MS = 10_000;
const MAX_BYTES = 512 * 1024;
/** More at a time would make the LLM or the system reject connections: our own overload would look like its failure. */
const MAX_CONCURRENT = 200;
const MAX_QUEUED = 10_000;

/** A call that waits for its turn. */
interface WaitingCall {
  start(): void;
}

/** A chat-completions endpoint. */
class Endpoint {
  readonly transport: UpstreamTransport;
  readonly #maxConcurrent: number;
  readonly #queue: FairQueue<WaitingCall>;
  #active = 0;

  constructor(transport: UpstreamTransport, maxConcurrent: number) {
    this.transport = transport;
    this.#maxConcurrent = maxConcurrent;
    this.#queue = new FairQueue(MAX_QUEUED, maxConcurrent);
  }

  /**
   * Waits until the call may start, if there are too many; {@link leave} must follow. Rejects with {@link BusyError} if
   * there is no room, and with `canceled()` if the signal aborts.
   */
  enter(turn: Turn, signal: AbortSignal | undefined, canceled: () => LlmError): Promise<void> | undefined {
    if (this.#active < this.#maxConcurrent) {
      this.#active++;
      return undefined;
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const onAbort = () => this.#queue.remove(call) && reject(canceled());
    const settled = promise.finally(() => signal?.removeEventListener('abort', onAbort));
    const call: WaitingCall = { start: resolve };
    signal?.addEventListener('abort', onAbort, { once: true });
    this.#queue.add(call, turn, '', reject);
    return settled;
  }

  /** A call that has started has ended, after `ms`. */
  leave(ms: number): void {
    this.#queue.served(ms);
    const next = this.#queue.take();
    if (next) next.start();
    else this.#active--;
  }

  /** Closes all connections. Waiting calls are started, and fail as well. */
  async close(): Promise<void> {
    for (let call = this.#queue.take(); call; call = this.#queue.take()) call.start();
    await this.transport.destroy();
  }
}

/** Client of LLM connections; reuses HTTP connections. */
export class LlmClient {
  /** Limit of one call. */
  readonly timeoutMs: number;
  readonly #maxBytes: number;
  readonly #maxConcurrent: number;
  readonly #secrets: Secrets;
  readonly #sockets: UpstreamSockets | undefined;
  readonly #proxies: EgressProxies;
  /** By URL. */
  readonly #endpoints = new Map<string, Endpoint>();
  #isClosed = false;

  constructor({
    timeoutMs = TIMEOUT_MS,
    maxBytes = MAX_BYTES,
    maxConcurrent = MAX_CONCURRENT,
    secrets = new Secrets(),
    sockets,
    proxies = new EgressProxies(),
  }: LlmLimits = {}) {
    this.#proxies = proxies;
    this.#secrets = secrets;
    this.#sockets = sockets;
    this.timeoutMs = timeoutMs;
    this.#maxBytes = maxBytes;
    this.#maxConcurrent = maxConcurrent;
  }

  /**
   * Requests a completion and returns its content, which may be empty (decisions 4.9, "LLM call"). Throws
   * {@link LlmError}, and {@link BusyError} if there are too many calls at a time and the request has waited too long, or if
   * this process has no file or port left for a connection. Nothing is retried; after `close` nothing is sent. `turn` is the
   * place of the request in the queue.
   */
  async complete(
    connection: LlmConnection,
    messages: readonly LlmMessage[],
    signal?: AbortSignal,
    turn: Turn = new Turn('', ''),
  ): Promise<string> {
    const { name, model, url, apiKey } = connection;
    if (this.#isClosed) throw new LlmError('aborted', name, 'service is shutting down');
    const headers = ['content-type', 'application/json', 'accept', 'application/json'];
    const endpoint = this.#endpoint(`${url.replace(/\/+$/, '')}/chat/completions`);
    if (endpoint === undefined) throw unusableConnection(name);
    if (apiKey) {
      const key = await this.#secrets.resolve(apiKey, new URL(url).origin);
      if ('problem' in key) throw new LlmError('request', name, `api_key ${key.problem}`);
      headers.push('authorization', `Bearer ${key.text}`);
    }
    const body = JSON.stringify({ model, messages, temperature: 0 });
    const waiting = endpoint.enter(turn, signal, () => new LlmError('aborted', name, 'request canceled'));
    if (waiting) await waiting;
    const startedAt = performance.now();
    try {
      const response = await collectResponse(
        endpoint.transport,
        { method: 'POST', headers, body },
        {
          timeoutMs: this.timeoutMs,
          maxBytes: this.#maxBytes,
          signal,
          onHead: (status) => checkHead(name, status),
        },
      );
      return parseContent(name, response.body);
    } catch (error) {
      if (!(error instanceof UpstreamError)) throw error;
      if (OWN_SHORTAGES.has(errorCode(error.cause) ?? '')) throw new BusyError();
      throw this.#toLlmError(name, error, signal);
    } finally {
      endpoint.leave(performance.now() - startedAt);
    }
  }

  /** Closes all connections; calls in progress fail as `aborted`. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#endpoints.values()].map((endpoint) => endpoint.close()));
  }

  /** Returns undefined for an invalid URL. */
  #endpoint(url: string): Endpoint | undefined {
    try {
      return this.#endpoints.getOrInsertComputed(url, () => {
        const transport = createTransport(url, {
          connectTimeoutMs: this.timeoutMs,
          redirects: 'pass',
          defaultHeaders: DEFAULT_HEADERS,
          proxy: this.#proxies.for(new URL(url)),
          sockets: this.#sockets,
        });
        return new Endpoint(transport, this.#maxConcurrent);
      });
    } catch {
      return undefined;
    }
  }

  /** Replaces the message of the HTTP client, which contains the URL. */
  #toLlmError(connection: string, { kind, cause }: UpstreamError, signal: AbortSignal | undefined): LlmError {
    const code = errorCodeText(cause);
    switch (kind) {
      case 'aborted':
        if (signal?.aborted) return new LlmError('aborted', connection, 'request canceled');
        return new LlmError('aborted', connection, this.#isClosed ? 'service is shutting down' : `not sent${code}`);
      case 'timeout':
        return new LlmError('timeout', connection, `no complete response within ${this.timeoutMs / 1000} s`);
      case 'refused':
        if (cause instanceof ProxyError) {
          return new LlmError('network', connection, `connection failed: ${cause.message}`);
        }
        return new LlmError('network', connection, `connection failed${code}`);
      case 'too-large':
        // With a cause, the head was too large.
        if (cause !== undefined) return new LlmError('invalid', connection, 'response is not valid HTTP/1.1');
        return new LlmError('too-large', connection, `response exceeds ${this.#maxBytes} bytes`);
      case 'invalid':
        if (cause instanceof TypeError) return unusableConnection(connection);
        if (cause instanceof CodingError) return new LlmError('invalid', connection, `response has ${cause.message}`);
        return new LlmError('invalid', connection, 'response is not valid HTTP/1.1');
      default:
        return new LlmError('network', connection, `connection closed before the response was complete${code}`);
    }
  }
}

/** Throws {@link LlmError} for a response that is not a completion. */
function checkHead(connection: string, status: number): undefined {
  if (status >= 300 && status < 400) {
    throw new LlmError('status', connection, `HTTP ${status}: redirects are not followed; set url to the target`);
  }
  if (status < 200 || status >= 400) {
    const hint = status === 404 ? '; check the model name and that url is the API base' : '';
    throw new LlmError('status', connection, `HTTP ${status}${hint}`);
  }
}

function parseContent(connection: string, body: Buffer): string {
  if (!isUtf8(body)) throw new LlmError('invalid', connection, 'response is not valid UTF-8');
  const completion = tryParseJson(body.toString());
  if (completion === undefined) throw new LlmError('invalid', connection, 'response is not valid JSON');
  const content = contentOf(completion);
  if (content === undefined) {
    throw new LlmError('no-content', connection, 'response without text in choices[0].message.content');
  }
  return content.toWellFormed();
}

function contentOf(completion: unknown): string | undefined {
  if (!isJsonObject(completion) || !Array.isArray(completion.choices)) return undefined;
  const [choice] = completion.choices;
  if (!isJsonObject(choice) || !isJsonObject(choice.message)) return undefined;
  const { content } = choice.message;
  return typeof content === 'string' ? content : undefined;
}

function unusableConnection(connection: string): LlmError {
  return new LlmError('request', connection, 'invalid url or api_key');
}

/** Errors of the system that are caused by too many connections of this process. */
const OWN_SHORTAGES: ReadonlySet<string> = new Set(['EMFILE', 'ENFILE', 'EADDRNOTAVAIL', 'ENOBUFS']);

/** The system's error code, which does not contain the address. */
function errorCode(cause: unknown): string | undefined {
  return cause instanceof Error && 'code' in cause && typeof cause.code === 'string' ? cause.code : undefined;
}

function errorCodeText(cause: unknown): string {
  const code = errorCode(cause);
  return code === undefined ? '' : ` (${code})`;
}

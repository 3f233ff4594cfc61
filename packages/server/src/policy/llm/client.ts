import { z } from 'zod';
import { baseUrl } from '../../http/address.ts';
import type { UpstreamTransport } from '../../http/client/client.ts';
import { type CollectedResponse, collectResponse } from '../../http/client/collect-response.ts';
import { CodingError } from '../../http/client/content-coding.ts';
import { Egress } from '../../http/client/egress.ts';
import { ProxyError } from '../../http/client/egress-proxies.ts';
import { UpstreamError } from '../../http/client/errors.ts';
import { BusyError, FairLimiter, WaitBudget } from '../../http/fair-queue.ts';
import { Secrets } from '../../http/secrets/secrets.ts';
import { errorCode } from '../../registry/store/files.ts';
import type { TargetLogger } from '../../telemetry/log.ts';
import { USER_AGENT } from '../../telemetry/version.ts';
import { type ErrorDetails, type ErrorResponse, readAnswer, readErrorResponse } from './response.ts';

/** LLM connection of evaluators. Responses, revisions and logs contain its name only; the other members never leave the process. */
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

/** An entry of `llm_connections` in the bootstrap file. */
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

/** Category of a failed LLM call. */
export type LlmFault =
  | 'network' // the connection failed or was closed before the response was complete
  | 'timeout' // the response was not complete in time
  | 'status' // a status other than 2xx; redirects are not followed
  | 'too-large' // a response over the limit
  | 'invalid' // a response that is not valid HTTP, UTF-8 or JSON
  | 'no-content' // a response without text in `choices[0].message.content`
  | 'refusal' // the model refused to respond
  | 'request' // a request that cannot be sent
  | 'aborted'; // canceled by this side

/**
 * A failed LLM call. The message contains the name of the connection, but neither its model, URL and key nor any content,
 * so it has no cause either.
 */
export class LlmError extends Error {
  override readonly name = 'LlmError';
  readonly fault: LlmFault;
  /** HTTP status, if that is the problem, and what the response says about it. */
  readonly response: LlmErrorResponse | undefined;

  constructor(fault: LlmFault, connection: string, problem: string, response?: LlmErrorResponse) {
    super(`llm connection ${JSON.stringify(connection)}: ${problem}`);
    this.fault = fault;
    this.response = response;
  }
}

/** A response with an error, in identifiers. */
export interface LlmErrorResponse extends ErrorDetails {
  readonly status: number;
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
  /** Connections to models. */
  readonly egress?: Egress;
  /** Milliseconds for the whole call, including connecting (default 10 s). */
  readonly timeoutMs?: number;
  /** Bytes of a response body (default 1 MiB). */
  readonly maxBytes?: number;
  /** Concurrent calls of one endpoint (default 200). */
  readonly maxConcurrent?: number;
  /** Logs the members of requests that a connection does not support. */
  readonly log?: TargetLogger;
}

/** Members of requests that can be left out. Some servers stream by default; some models have one temperature only. */
const OPTIONAL: Readonly<Record<string, unknown>> = { temperature: 0, stream: false };
/** Status codes of responses that may refuse a member. */
const REFUSALS: ReadonlySet<number> = new Set([400, 422]);
/** Bytes of an error response that are read. */
const MAX_ERROR_BYTES = 64 * 1024;

/** Without it, any content coding would be acceptable (RFC 9110 12.5.3). One that comes nevertheless is decoded. */
const DEFAULT_HEADERS: readonly string[] = ['accept-encoding', 'identity', 'user-agent', USER_AGENT];
const TIMEOUT_MS = 10_000;
const MAX_BYTES = 512 * 1024;
/** More at a time would make the LLM or the system reject connections: our own overload would look like its failure. */
const MAX_CONCURRENT = 200;
const MAX_QUEUED = 10_000;

/** A chat-completions endpoint. */
interface Endpoint {
  readonly transport: UpstreamTransport;
  /** Its calls. */
  readonly limiter: FairLimiter;
}

/** Client of LLM connections; reuses HTTP connections. */
export class LlmClient {
  /** Limit of one call. */
  readonly timeoutMs: number;
  readonly #options: Required<Omit<LlmLimits, 'timeoutMs' | 'log'>>;
  readonly #log: TargetLogger | undefined;
  /** Members that are left out, by the name of the connection. */
  readonly #omitted = new Map<string, readonly string[]>();
  /** By URL. */
  readonly #endpoints = new Map<string, Endpoint>();
  #isClosed = false;

  constructor({
    timeoutMs = TIMEOUT_MS,
    maxBytes = MAX_BYTES,
    maxConcurrent = MAX_CONCURRENT,
    secrets = new Secrets(),
    egress = new Egress(),
    log,
  }: LlmLimits = {}) {
    this.timeoutMs = timeoutMs;
    this.#options = { maxBytes, maxConcurrent, secrets, egress };
    this.#log = log;
  }

  /**
   * Requests a completion and returns its content, which may be empty. Throws
   * {@link LlmError}, and {@link BusyError} if there are too many calls at a time and the request has waited too long, or if
   * this process has no file or port left for a connection. After `close` nothing is sent. `turn` is the place of the request
   * in the queue.
   *
   * A request is repeated once, without them, if the response names members that can be left out. If that succeeds, the
   * connection does not get them anymore.
   */
  async complete(
    connection: LlmConnection,
    messages: readonly LlmMessage[],
    signal?: AbortSignal,
    budget: WaitBudget = new WaitBudget('', ''),
  ): Promise<string> {
    const { name, model, url, apiKey } = connection;
    if (this.#isClosed) throw new LlmError('aborted', name, 'service is shutting down');
    const headers = ['content-type', 'application/json', 'accept', 'application/json'];
    const secrets = [model];
    const endpoint = this.#endpoint(`${url.replace(/\/+$/, '')}/chat/completions`);
    if (endpoint === undefined) throw unusableConnection(name);
    if (apiKey) {
      const key = await this.#options.secrets.resolve(apiKey, new URL(url).origin);
      if ('problem' in key) throw new LlmError('request', name, `api_key ${key.problem}`);
      headers.push('authorization', `Bearer ${key.text}`);
      secrets.push(key.text);
    }
    const send = async (omitted: readonly string[]) => {
      const optional = Object.entries(OPTIONAL).filter(([member]) => !omitted.includes(member));
      const body = JSON.stringify({ model, messages, ...Object.fromEntries(optional) });
      const response = await this.#send(endpoint, name, headers, body, signal);
      const sent = optional.map(([member]) => member);
      return toResult(connection, response, sent, secrets);
    };
    try {
      return await endpoint.limiter.run(() => this.#sendSupported(name, send), budget, '', signal);
    } catch (error) {
      throw signal?.aborted ? new LlmError('aborted', name, 'request canceled') : error;
    }
  }

  /** Sends a request with the members that the connection supports, and learns which those are. */
  async #sendSupported(name: string, send: (omitted: readonly string[]) => Promise<string | Refusal>): Promise<string> {
    const known = this.#omitted.get(name) ?? [];
    const first = await send(known);
    if (typeof first === 'string') return first;
    if (first.refused.length === 0) throw first.error;
    const omitted = [...known, ...first.refused];
    const second = await send(omitted);
    // Another member is refused now: these were the right ones to leave out.
    if (typeof second === 'string' || second.refused.length > 0) this.#omit(name, omitted, first);
    if (typeof second === 'string') return second;
    throw second.error;
  }

  #omit(connection: string, omitted: readonly string[], { error, refused }: Refusal): void {
    // Of concurrent calls, the first one has learned it.
    if (this.#omitted.get(connection)?.length === omitted.length) return;
    this.#omitted.set(connection, omitted);
    const fields = { connection, omitted: refused, ...error.response };
    this.#log?.warn('llm connection refused members of the request, which are left out from now on', fields);
  }

  async #send(
    endpoint: Endpoint,
    name: string,
    headers: readonly string[],
    body: string,
    signal: AbortSignal | undefined,
  ): Promise<CollectedResponse> {
    const { timeoutMs } = this;
    let status = 0;
    const onHead = (received: number) => {
      status = received;
      return checkHead(name, received);
    };
    try {
      return await collectResponse(
        endpoint.transport,
        { method: 'POST', headers, body },
        { timeoutMs, maxBytes: this.#options.maxBytes, maxErrorBytes: MAX_ERROR_BYTES, signal, onHead },
      );
    } catch (error) {
      if (!(error instanceof UpstreamError)) throw error;
      if (OWN_SHORTAGES.has(errorCode(error.cause) ?? '')) throw new BusyError();
      // Without its body, an error response still has its status.
      if (status >= 400 && !signal?.aborted && !this.#isClosed) throw statusError(name, status);
      throw this.#toLlmError(name, error, signal);
    }
  }

  /** Closes all connections; calls in progress fail as `aborted`. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const endpoints = [...this.#endpoints.values()];
    // Waiting calls fail as well.
    for (const { limiter } of endpoints) limiter.drain();
    await Promise.all(endpoints.map(({ transport }) => transport.destroy()));
  }

  /** Returns undefined for an invalid URL. */
  #endpoint(url: string): Endpoint | undefined {
    try {
      return this.#endpoints.getOrInsertComputed(url, () => {
        const options = {
          connectTimeoutMs: this.timeoutMs,
          redirects: 'pass',
          defaultHeaders: DEFAULT_HEADERS,
        } as const;
        const { egress, maxConcurrent } = this.#options;
        return { transport: egress.open(url, options), limiter: new FairLimiter(MAX_QUEUED, maxConcurrent) };
      });
    } catch {
      return undefined;
    }
  }

  /** Replaces the message of the HTTP client, which contains the URL. */
  #toLlmError(connection: string, { kind, cause }: UpstreamError, signal: AbortSignal | undefined): LlmError {
    const systemCode = errorCode(cause);
    // It does not contain the address.
    const code = systemCode === undefined ? '' : ` (${systemCode})`;
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
        return new LlmError('too-large', connection, `response exceeds ${this.#options.maxBytes} bytes`);
      case 'invalid':
        if (cause instanceof TypeError) return unusableConnection(connection);
        if (cause instanceof CodingError) return new LlmError('invalid', connection, `response has ${cause.message}`);
        return new LlmError('invalid', connection, 'response is not valid HTTP/1.1');
      default:
        return new LlmError('network', connection, `connection closed before the response was complete${code}`);
    }
  }
}

/** A response that refuses the request. */
interface Refusal extends Pick<ErrorResponse, 'refused'> {
  readonly error: LlmError;
}

/** Throws {@link LlmError} for a response whose body is not read. */
function checkHead(connection: string, status: number): undefined {
  if (status >= 300 && status < 400) {
    const problem = `HTTP ${status}: redirects are not followed; set url to the target`;
    throw new LlmError('status', connection, problem, { status });
  }
  if (status < 200 || status >= 500) throw statusError(connection, status);
}

function statusError(connection: string, status: number, { param, code }: ErrorDetails = {}): LlmError {
  const details = [param !== undefined && `param ${param}`, code !== undefined && `code ${code}`].filter(Boolean);
  const hint = status === 404 ? '; check the model name and that url is the API base' : '';
  const problem = `HTTP ${status}${details.length > 0 ? ` (${details.join(', ')})` : ''}${hint}`;
  const response = { status, ...(param !== undefined && { param }), ...(code !== undefined && { code }) };
  return new LlmError('status', connection, problem, response);
}

/**
 * Returns the content of a response. `sent` are the members of the request that can be left out, `secrets` texts that are in no
 * message.
 */
function toResult(
  { name, url }: LlmConnection,
  { status, body }: CollectedResponse,
  sent: readonly string[],
  secrets: readonly string[],
): string | Refusal {
  if (status >= 400) {
    const response = readErrorResponse(body, sent, [...secrets, new URL(url).hostname]);
    const refused = REFUSALS.has(status) ? response.refused : [];
    return { refused, error: statusError(name, status, response) };
  }
  const answer = readAnswer(body);
  if (typeof answer === 'string') return answer;
  throw new LlmError(answer.fault, name, answer.problem);
}

function unusableConnection(connection: string): LlmError {
  return new LlmError('request', connection, 'invalid url or api_key');
}

/** Errors of the system that are caused by too many connections of this process. */
const OWN_SHORTAGES: ReadonlySet<string> = new Set(['EMFILE', 'ENFILE', 'EADDRNOTAVAIL', 'ENOBUFS']);

import { isUtf8 } from 'node:buffer';
import { isJsonObject, tryParseJson } from '@sluice/protocol/json/parse';
import type { LlmConnection } from '../../app/config/bootstrap-file.ts';
import { type ResponseHandler, type ResponseHeaders, type UpstreamCall, type UpstreamRequest, type UpstreamTransport } from '../../http/client/client.ts';
import { createTransport } from '../../http/client/pool.ts';
import type { UpstreamError } from '../../http/client/errors.ts';
import { ChunkBuffer } from '../../http/request-body.ts';

/**
 * Why an LLM gave no answer (decisions 4.9, "Failure").
 *
 * - `network`: no connection came about, or it ended before the answer was complete
 * - `timeout`: the answer was not complete in time
 * - `status`: an HTTP status that is no success; redirects are not followed
 * - `too-large`: an answer over the limit
 * - `invalid`: an answer that is not HTTP, not UTF-8 or not JSON
 * - `no-content`: an answer without `choices[0].message.content`, or one that is no text
 * - `request`: a request that cannot be sent
 * - `aborted`: ended from our side
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
 * An LLM that gave no answer. The message names the connection and nothing else of it: no model, no address, no key, and
 * nothing of what was asked or answered. So it has no cause either.
 */
export class LlmFailure extends Error {
  override readonly name = 'LlmFailure';
  readonly fault: LlmFault;

  /** `what` completes the sentence that begins with the connection's name. */
  constructor(fault: LlmFault, connection: string, what: string) {
    super(`llm connection ${JSON.stringify(connection)} ${what}`);
    this.fault = fault;
  }
}

/** A connection by which nothing can be sent. */
export function unusable(connection: string): LlmFailure {
  return new LlmFailure('request', connection, 'cannot be asked: its url or its api_key cannot be used');
}

/** What bounds a call. */
interface CallSettings {
  /** Name of the connection, for messages. */
  readonly connection: string;
  /** Milliseconds for the whole call. */
  readonly timeoutMs: number;
  /** Bytes of the answer's body. */
  readonly maxBytes: number;
  readonly signal: AbortSignal | undefined;
}

/** One completion that is asked for. To be sent once. */
export class CompletionCall implements ResponseHandler {
  readonly #settings: CallSettings;
  readonly #body = new ChunkBuffer();
  readonly #outcome = Promise.withResolvers<string>();
  readonly #onAbort = () => this.#fail('aborted', 'was not waited for: the request was ended');
  #call: UpstreamCall | undefined = undefined;
  #timer: NodeJS.Timeout | undefined = undefined;

  constructor(settings: CallSettings) {
    this.#settings = settings;
  }

  /** The content of the answer. Throws {@link LlmFailure}. */
  send(transport: UpstreamTransport, request: UpstreamRequest): Promise<string> {
    const { timeoutMs, signal } = this.#settings;
    if (signal?.aborted) {
      this.#onAbort();
    } else {
      signal?.addEventListener('abort', this.#onAbort);
      this.#timer = setTimeout(() => this.#fail('timeout', `did not answer within ${timeoutMs / 1000} s`), timeoutMs);
      this.#call = transport.dispatch(request, this);
    }
    return this.#outcome.promise;
  }

  onHead(status: number, headers: ResponseHeaders): void {
    if (status >= 300 && status < 400) {
      this.#fail('status', `redirects (HTTP ${status}), which is not followed: configure the address it means`);
    } else if (status < 200 || status >= 400) {
      const hint =
        status === 404 ? ': has the server this model, and is /chat/completions below the url that is configured?' : '';
      this.#fail('status', `answered with HTTP ${status}${hint}`);
    } else if (!isIdentity(headers['content-encoding'])) {
      this.#fail('invalid', 'answered in an encoding that was not asked for');
    }
  }

  onData(chunk: Buffer): boolean {
    const { maxBytes } = this.#settings;
    this.#body.push(chunk);
    if (this.#body.length > maxBytes) this.#fail('too-large', `answered with more than ${maxBytes} bytes`);
    return true;
  }

  onEnd(): void {
    const bytes = this.#body.take();
    if (!isUtf8(bytes)) return this.#fail('invalid', 'answered with bytes that are not UTF-8');
    const answer = tryParseJson(bytes.toString());
    if (answer === undefined) return this.#fail('invalid', 'answered with what is not JSON');
    const content = contentOf(answer);
    if (content === undefined) return this.#fail('no-content', 'answered without a text in choices[0].message.content');
    this.#settle();
    this.#outcome.resolve(content.toWellFormed());
  }

  onError({ kind, cause }: UpstreamError): void {
    const code = codeOf(cause);
    switch (kind) {
      case 'aborted':
        return this.#fail('aborted', 'is no longer in use: the request was ended');
      case 'refused':
        return this.#fail('network', `could not be connected to${code}`);
      case 'invalid':
      case 'too-large':
        if (cause instanceof TypeError) return this.#end(unusable(this.#settings.connection));
        return this.#fail('invalid', 'did not answer in HTTP/1.1');
      default:
        return this.#fail('network', `closed the connection before the answer was complete${code}`);
    }
  }

  #fail(fault: LlmFault, what: string): void {
    this.#end(new LlmFailure(fault, this.#settings.connection, what));
  }

  #end(failure: LlmFailure): void {
    this.#settle();
    this.#call?.abort();
    this.#outcome.reject(failure);
  }

  #settle(): void {
    clearTimeout(this.#timer);
    this.#settings.signal?.removeEventListener('abort', this.#onAbort);
  }
}

function isIdentity(coding: string | string[] | undefined): boolean {
  return coding === undefined || coding === '' || coding === 'identity';
}

function contentOf(answer: unknown): string | undefined {
  if (!isJsonObject(answer) || !Array.isArray(answer.choices)) return undefined;
  const [choice] = answer.choices;
  if (!isJsonObject(choice) || !isJsonObject(choice.message)) return undefined;
  const { content } = choice.message;
  return typeof content === 'string' ? content : undefined;
}

/** The system's name for what went wrong, which says nothing of the address. */
function codeOf(cause: unknown): string {
  return cause instanceof Error && 'code' in cause && typeof cause.code === 'string' ? ` (${cause.code})` : '';
}

/** A message that an LLM is asked with. */
export interface LlmMessage {
  readonly role: 'system' | 'user';
  readonly content: string;
}

/** Bounds of one call; those of the product by default. */
export interface LlmLimits {
  /** Milliseconds for the whole of it, connecting included (default 10 s, decisions 8). */
  readonly timeoutMs?: number;
  /** Bytes of an answer's body (default 1 MiB). */
  readonly maxBytes?: number;
}

const TIMEOUT_MS = 10_000;
const MAX_BYTES = 1024 * 1024;

/** Asks LLMs, on connections that are kept open between calls. */
export class LlmClient {
  readonly #timeoutMs: number;
  readonly #maxBytes: number;
  /** By the address of the chat-completions endpoint. */
  readonly #transports = new Map<string, UpstreamTransport>();
  #closed = false;

  constructor({ timeoutMs = TIMEOUT_MS, maxBytes = MAX_BYTES }: LlmLimits = {}) {
    this.#timeoutMs = timeoutMs;
    this.#maxBytes = maxBytes;
  }

  /**
   * The content of the only choice, which may be empty (decisions 4.9, "LLM call"). Throws `LlmFailure`. Nothing is sent
   * twice; after `close`, nothing at all.
   */
  async ask(connection: LlmConnection, messages: readonly LlmMessage[], signal?: AbortSignal): Promise<string> {
    const { model, url, apiKey } = connection;
    if (this.#closed) throw new LlmFailure('aborted', connection.name, 'is no longer in use: the service stops');
    const headers = ['content-type', 'application/json', 'accept', 'application/json', 'accept-encoding', 'identity'];
    if (apiKey) headers.push('authorization', `Bearer ${apiKey}`);
    const transport = this.#transportTo(`${url.replace(/\/+$/, '')}/chat/completions`);
    if (transport === undefined) throw unusable(connection.name);
    const body = JSON.stringify({ model, messages, temperature: 0 });
    const settings = { connection: connection.name, timeoutMs: this.#timeoutMs, maxBytes: this.#maxBytes, signal };
    return new CompletionCall(settings).send(transport, { method: 'POST', headers, body });
  }

  /** Ends connections, and calls under way as `aborted`. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#transports.values()].map((transport) => transport.destroy()));
  }

  /** Undefined when the address is none. */
  #transportTo(address: string): UpstreamTransport | undefined {
    let transport = this.#transports.get(address);
    if (transport === undefined) {
      try {
        transport = createTransport(address, { connectTimeoutMs: this.#timeoutMs, redirects: 'pass' });
      } catch {
        return undefined;
      }
      this.#transports.set(address, transport);
    }
    return transport;
  }
}

import type {
  RawHeaders,
  ResponseHandler,
  ResponseHeaders,
  UpstreamCall,
  UpstreamRequest,
  UpstreamTransport,
} from '../client/client.ts';
import { UpstreamError } from '../client/errors.ts';
import { filterHeaders } from '../header-lines.ts';
import { type SecretMatcher, StreamRedactor } from './redaction.ts';
import type { SecretHeaders } from './secret-headers.ts';

/**
 * Adds the headers of a forward to all requests to its upstream, and removes their secrets from all of its responses: no
 * other part of the service sees a secret. Requests without usable headers are not sent.
 */
export class CredentialInjector implements UpstreamTransport {
  readonly #transport: UpstreamTransport;
  readonly #headers: SecretHeaders;

  constructor(transport: UpstreamTransport, headers: SecretHeaders) {
    this.#transport = transport;
    this.#headers = headers;
  }

  get address(): string {
    return this.#transport.address;
  }

  dispatch(request: UpstreamRequest, handler: ResponseHandler): UpstreamCall {
    const block = this.#headers.current();
    const send = (lines: readonly string[], target: ResponseHandler): UpstreamCall => {
      // A client's own headers must not replace the operator's.
      const others = filterHeaders(request.headers, (name) => !this.#headers.names.has(name));
      return this.#transport.dispatch({ ...request, headers: [...others, ...lines] }, target);
    };
    const isReady = !(block instanceof Promise) && 'lines' in block;
    if (isReady && this.#headers.search === undefined) return send(block.lines, handler);
    const call = new RedactedCall(handler, () => this.#headers.search);
    if (isReady) {
      call.sent = send(block.lines, call);
      return call;
    }
    void Promise.resolve(block).then((resolved) => {
      if (call.isAborted) return;
      if ('lines' in resolved) call.sent = send(resolved.lines, call);
      else handler.onError(unusableHeaders(this.address, resolved.problem));
    });
    return call;
  }

  close(): Promise<void> {
    return this.#transport.close();
  }

  destroy(): Promise<void> {
    return this.#transport.destroy();
  }
}

function unusableHeaders(address: string, problem: string): UpstreamError {
  const remedy = 'set the secret where the service runs, or change "headers" of the forward';
  return new UpstreamError('refused', address, `was not called: its ${problem}`, { remedy });
}

/** Needed by the service as they are, and never passed on. */
const UNCHANGED_HEADERS: ReadonlySet<string> = new Set(['mcp-session-id']);

/** A call that may wait for its headers, and passes its response on without the secrets in them. */
class RedactedCall implements UpstreamCall, ResponseHandler {
  isAborted = false;
  /** Undefined until the request is sent. */
  sent: UpstreamCall | undefined = undefined;
  readonly #handler: ResponseHandler;
  readonly #search: () => SecretMatcher | undefined;
  readonly #redactor: StreamRedactor;
  /** The handler has paused. */
  #isPaused = false;
  /** The response has ended while the handler was paused. */
  #hasEnded = false;

  constructor(handler: ResponseHandler, search: () => SecretMatcher | undefined) {
    this.#handler = handler;
    this.#search = search;
    this.#redactor = new StreamRedactor(search);
  }

  abort(): void {
    this.isAborted = true;
    this.#hasEnded = false;
    this.sent?.abort();
  }

  resume(): void {
    this.#isPaused = false;
    if (this.#hasEnded) this.#handler.onEnd();
    else this.sent?.resume();
  }

  onHead(status: number, headers: ResponseHeaders, raw: RawHeaders, reason: string): void {
    const search = this.#search();
    if (!search) return this.#handler.onHead(status, headers, raw, reason);
    const redact = (name: string, value: string) =>
      UNCHANGED_HEADERS.has(name.toLowerCase()) ? value : search.redact(value);
    // The length of the body may change.
    const others = Object.entries(headers).filter(([name]) => name !== 'content-length');
    const redacted = others.map(([name, value]) => [
      name,
      Array.isArray(value) ? value.map((line) => redact(name, line)) : value && redact(name, value),
    ]);
    const lines = raw.map((text, at) => (at % 2 === 0 ? text : redact(raw[at - 1] ?? '', text)));
    this.#handler.onHead(status, Object.fromEntries(redacted), lines, reason);
  }

  onData(chunk: Buffer): boolean {
    const redacted = this.#redactor.write(chunk);
    if (redacted.length === 0) return true;
    this.#isPaused = !this.#handler.onData(redacted);
    return !this.#isPaused;
  }

  onEnd(): void {
    const rest = this.#redactor.end();
    if (rest.length > 0) this.#isPaused = !this.#handler.onData(rest);
    if (this.#isPaused) this.#hasEnded = true;
    else this.#handler.onEnd();
  }

  onError(error: UpstreamError): void {
    const search = this.#search();
    const { message, what, remedy } = error;
    if (search === undefined || search.redact(message) === message) return this.#handler.onError(error);
    this.#handler.onError(error.withMessage(search.redact(what), remedy && search.redact(remedy)));
  }
}

import { isUtf8 } from 'node:buffer';
import { isJsonObject, tryParseJson } from '@sluice/protocol/json/parse';
import { ByteCollector } from '../../bytes/collector.ts';
import type {
  ResponseHandler,
  ResponseHeaders,
  UpstreamCall,
  UpstreamRequest,
  UpstreamTransport,
} from '../../transport/transport.ts';
import type { UpstreamError } from '../../transport/upstream-error.ts';
import { LlmFailure, type LlmFault, unusable } from './llm-failure.ts';

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
  readonly #body = new ByteCollector();
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

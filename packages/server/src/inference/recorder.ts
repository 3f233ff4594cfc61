import type { IncomingHttpHeaders } from 'node:http';
import { correlationOf } from '../exchange/correlation.ts';
import type { RequestHead } from '../exchange/exchange.ts';
import type { Filter } from '../http/chain.ts';
import type { ResponseHeaders } from '../http/client/client.ts';
import { mediaType } from '../http/client/response-parser.ts';
import { type CompletionMetrics, type RecordedCompletion, recordCompletion } from '../telemetry/completions.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import { AnswerCapture } from './answer-capture.ts';
import { apiOfPath } from './apis/apis.ts';
import { MemoryBudget } from './bounded-memory.ts';
import { type BodySink, createDecoder, type DecodingLimits } from './decoder.ts';
import type { InteractionStore } from './interaction-store.ts';
import { RequestCapture } from './request-capture.ts';

/** Options of {@link serviceIntercept}. */
export interface InterceptOptions {
  readonly startRecording: ReturnType<typeof interactionRecorder>;
  readonly completionMetrics: CompletionMetrics;
}

/** Creates the filter that records the completions that a `load_balancer` after it proxies. */
export function serviceIntercept({ startRecording, completionMetrics }: InterceptOptions): Filter {
  return (exchange) => {
    const { head, path, headers, correlation, facts } = exchange;
    const { method, startedAt } = head;
    // Not of the exchange, which the recording may outlive.
    const onRecorded = (completion: RecordedCompletion): void =>
      recordCompletion(completionMetrics, { startedAt, correlation, facts }, completion);
    const recording = () => startRecording({ method, target: path, headers }, onRecorded);
    exchange.recording = recording;
    return undefined;
  };
}

/** Options of {@link interactionRecorder}. */
export interface RecorderOptions {
  /** Its capacity is read for each exchange. */
  readonly store: Pick<InteractionStore, 'capacity' | 'add'>;
  readonly log: TargetLogger;
  /** Recorded bytes per body (default 4 MiB). */
  readonly bodyLimit?: number;
  /** Bytes in memory for all exchanges in progress (default 256 MiB). */
  readonly totalLimit?: number;
}

/**
 * Creates the function that starts recording an exchange whose request has just arrived; it returns undefined for one that is not
 * recorded. `onRecorded` is called after the interaction has been stored. The proxy reports each part of the exchange after
 * forwarding it; recording never waits, throws or takes long.
 *
 * @example
 * const recording = startRecording({ method: request.method, target: request.url, headers: request.headers });
 * upstream.write(chunk);
 * recording?.requestChunk(chunk);
 */
export function interactionRecorder({
  store,
  log,
  bodyLimit = 4 * 1024 * 1024,
  totalLimit = 256 * 1024 * 1024,
}: RecorderOptions) {
  const budget = new MemoryBudget(totalLimit);
  const decoding = { maxPending: MAX_PENDING * bodyLimit, maxTotal: MAX_DECODED * bodyLimit, budget };
  const options = { store, log, bodyLimit, decoding };
  return (head: RecordedHead, onRecorded?: (completion: RecordedCompletion) => void): ExchangeRecording | undefined =>
    head.method === 'POST' && store.capacity > 0 ? new ExchangeRecording(options, head, onRecorded) : undefined;
}

/** The head of a request. */
type RecordedHead = Pick<RequestHead, 'method' | 'target' | 'headers'>;

/** Options that all recordings of a recorder share. */
interface RecordingOptions extends Required<Omit<RecorderOptions, 'totalLimit'>> {
  readonly decoding: DecodingLimits;
}

/** Truncated requests with this path suffix are recorded although they are not JSON. */
const COMPLETIONS_PATH = '/chat/completions';
/** Input that waits for a decompressor, and decoded bytes of a body: multiples of the recorded bytes. */
const MAX_PENDING = 8;
const MAX_DECODED = 64;
const MAX_PATH_CHARACTERS = 2_048;

/** Recording of one proxied exchange. No method waits or throws. */
export class ExchangeRecording {
  readonly #options: RecordingOptions;
  readonly #epochMs = Date.now();
  readonly #startedAt = performance.now();
  readonly #onRecorded: ((completion: RecordedCompletion) => void) | undefined;
  #durationMs = 0;
  readonly #path: string;
  readonly #headers: IncomingHttpHeaders;
  readonly #request: RequestCapture;
  readonly #requestDecoder: BodySink | undefined;
  #isRequestComplete = false;
  #status = 0;
  #response: AnswerCapture | undefined = undefined;
  #responseDecoder: BodySink | undefined = undefined;
  /** Bodies that are not decoded yet: recording ends with the last one. */
  #undecoded = 2;
  #hasEnded = false;
  /** Set if the exchange is not recorded. */
  #isDiscarded = false;

  constructor(
    options: RecordingOptions,
    { target, headers }: RecordedHead,
    onRecorded?: (completion: RecordedCompletion) => void,
  ) {
    const { bodyLimit, decoding } = options;
    this.#options = options;
    this.#onRecorded = onRecorded;
    this.#path = (target.split('?', 1)[0] ?? '').slice(0, MAX_PATH_CHARACTERS);
    this.#headers = headers;
    this.#request = new RequestCapture({
      conversation: apiOfPath(this.#path)?.request.conversation,
      limit: bodyLimit,
      budget: decoding.budget,
      onEnd: () => this.#onRequestDecoded(),
    });
    this.#requestDecoder = createDecoder(headers['content-encoding'], this.#request, decoding);
    if (this.#requestDecoder === undefined) this.#isDiscarded = true;
  }

  /** Records a chunk of the request body, as sent. The chunk must not be modified afterwards. */
  requestChunk(chunk: Buffer): void {
    if (this.#isDiscarded || this.#isRequestComplete) return;
    this.#attempt(() => {
      this.#requestDecoder?.write(chunk);
      if (this.#request.fields.isInvalid && !this.#path.endsWith(COMPLETIONS_PATH)) this.#discard();
    });
  }

  /** Called when the request is complete. */
  requestEnd(): void {
    if (this.#isDiscarded || this.#isRequestComplete) return;
    this.#isRequestComplete = true;
    this.#attempt(() => this.#requestDecoder?.end());
  }

  /** Records the head of the response to the client; header names in lower case. */
  responseHead(status: number, headers: ResponseHeaders): void {
    if (this.#isDiscarded || this.#hasEnded || this.#status !== 0) return;
    this.#status = status;
    this.#attempt(() => {
      const { bodyLimit: limit, decoding } = this.#options;
      const { budget } = decoding;
      const isLabeledEvents = mediaType(headers) === 'text/event-stream';
      const onEnd = () => this.#onDecoded();
      const response = new AnswerCapture({ path: this.#path, isLabeledEvents, limit, budget, onEnd });
      this.#responseDecoder = createDecoder(headers['content-encoding']?.toString(), response, decoding);
      // A body in an unknown coding is not stored.
      if (this.#responseDecoder !== undefined) this.#response = response;
    });
  }

  /** Records a chunk of the response body; see {@link requestChunk}. */
  responseChunk(chunk: Buffer): void {
    if (this.#isDiscarded || this.#hasEnded) return;
    this.#attempt(() => this.#responseDecoder?.write(chunk));
  }

  /** Called when the response has ended or failed, or the client has disconnected. Stores what has arrived. */
  end(): void {
    if (this.#isDiscarded || this.#hasEnded) return;
    this.#hasEnded = true;
    this.#durationMs = performance.now() - this.#startedAt;
    this.requestEnd();
    if (this.#responseDecoder === undefined) this.#onDecoded();
    else this.#attempt(() => this.#responseDecoder?.end());
  }

  #onRequestDecoded(): void {
    const { isTruncated, fields } = this.#request;
    const hasConversation = fields.hasMessages || fields.hasConversation;
    const isReadable = fields.isComplete && hasConversation;
    if (isReadable || (isTruncated && (hasConversation || this.#path.endsWith(COMPLETIONS_PATH)))) this.#onDecoded();
    else this.#discard();
  }

  #onDecoded(): void {
    if (--this.#undecoded === 0 && !this.#isDiscarded) this.#attempt(() => this.#record());
  }

  #record(): void {
    const { store, log } = this.#options;
    const headers = this.#headers;
    const path = this.#path;
    const { conversationId, oversizedHeader } = correlationOf(headers);
    if (oversizedHeader !== undefined) log.warn(`${oversizedHeader} has more than 256 bytes and is ignored`, { path });
    const request = this.#request;
    const response = this.#response;
    const fields = response?.fields;
    store.add({
      epochMs: this.#epochMs,
      path,
      conversationId,
      completionId: fields?.id,
      model: fields?.model,
      statusCode: this.#status,
      durationMs: Math.round(this.#durationMs),
      request: request.take(),
      response: response?.take() ?? { body: undefined, truncated: false },
    });
    this.#onRecorded?.({
      completionId: fields?.id,
      requestModel: request.fields.model,
      responseModel: fields?.model,
      inputTokens: fields?.inputTokens,
      outputTokens: fields?.outputTokens,
      finishReasons: fields?.finishReasons ?? [],
      errorType: fields?.errorType,
      statusCode: this.#status,
      endedAt: this.#startedAt + this.#durationMs,
    });
  }

  #discard(): void {
    this.#isDiscarded = true;
    this.#request.release();
    this.#response?.release();
  }

  /** Records no more if a step fails. */
  #attempt(step: () => unknown): void {
    try {
      step();
    } catch (error) {
      this.#discard();
      this.#options.log.error('failed to record interaction', { path: this.#path, error });
    }
  }
}

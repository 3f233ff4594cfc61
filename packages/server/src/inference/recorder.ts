import type { IncomingHttpHeaders } from 'node:http';
import type { Filter } from '../http/chain.ts';
import type { ResponseHeaders } from '../http/client/client.ts';
import { correlationOf, idTooLong } from '../telemetry/correlation.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import { RecordedEvents, RecordedText } from './body-capture.ts';
import { type CompletionUsage, completionUsage } from './completion-assembler.ts';
import { type BodyDecoder, decoderFor } from './decoder.ts';
import type { InteractionStore } from './interaction-store.ts';

/** What all recordings of a recorder share. */
export interface RecordingParts {
  readonly store: Pick<InteractionStore, 'add'>;
  readonly log: TargetLogger;
  /** Bytes kept of each body. */
  readonly bodyLimit: number;
  readonly budget: MemoryBudget;
}

/** A completion that was recorded, as telemetry tells of it: nothing of what was asked or answered. */
export interface RecordedCompletion extends CompletionUsage {
  readonly completionId: string | undefined;
  readonly requestModel: string | undefined;
  readonly responseModel: string | undefined;
  /** 0 when the exchange ended before an answer began. */
  readonly statusCode: number;
  /** When it ended, on the clock of `performance`. */
  readonly endedAt: number;
}

/** Paths whose requests count although they are too long to be read as JSON (decisions 4.8). */
const COMPLETIONS = '/chat/completions';
const LONGEST_PATH = 2_048;

/** One exchange of the inference listener while it passes. None of the methods waits or throws. */
export class ExchangeRecording {
  readonly #parts: RecordingParts;
  readonly #epochMs = Date.now();
  readonly #begun = performance.now();
  readonly #told: ((completion: RecordedCompletion) => void) | undefined;
  #endedAfter = 0;
  readonly #path: string;
  readonly #headers: IncomingHttpHeaders;
  readonly #request: RecordedText;
  readonly #requestDecoder: BodyDecoder | undefined;
  #requestEnded = false;
  #requestDecoded = false;
  #status = 0;
  #response: RecordedText | RecordedEvents | undefined = undefined;
  #responseDecoder: BodyDecoder | undefined = undefined;
  #responseDecoded = false;
  #ended = false;
  /** Nothing is recorded of it. */
  #over = false;

  constructor(
    parts: RecordingParts,
    target: string,
    headers: IncomingHttpHeaders,
    told?: (completion: RecordedCompletion) => void,
  ) {
    this.#parts = parts;
    this.#told = told;
    this.#path = (target.split('?', 1)[0] ?? '').slice(0, LONGEST_PATH);
    this.#headers = headers;
    this.#request = new RecordedText(parts.bodyLimit, parts.budget, () => this.#onRequestDecoded());
    this.#requestDecoder = decoderFor(headers['content-encoding'], this.#request, 2 * parts.bodyLimit, parts.budget);
    if (this.#requestDecoder === undefined) this.#over = true;
  }

  /** A piece of the request's body, as it was sent. It may not be changed after this. */
  requestChunk(chunk: Buffer): void {
    if (this.#over || this.#requestEnded) return;
    try {
      this.#requestDecoder?.write(chunk);
      if (this.#request.outline.broken && !this.#path.endsWith(COMPLETIONS)) this.#giveUp();
    } catch (error) {
      this.#fail(error);
    }
  }

  /** All of the request has come. */
  requestEnd(): void {
    if (this.#over || this.#requestEnded) return;
    this.#requestEnded = true;
    try {
      this.#requestDecoder?.end();
    } catch (error) {
      this.#fail(error);
    }
  }

  /** The head of the answer that the client gets; header names in lower case. */
  responseHead(status: number, headers: ResponseHeaders): void {
    if (this.#over || this.#ended || this.#status !== 0) return;
    this.#status = status;
    try {
      const { bodyLimit, budget } = this.#parts;
      const type = headers['content-type'];
      const isEvents = typeof type === 'string' && /^\s*text\/event-stream\s*(?:;|$)/i.test(type);
      const onEnd = () => this.#onResponseDecoded();
      const response = isEvents
        ? new RecordedEvents(bodyLimit, budget, onEnd)
        : new RecordedText(bodyLimit, budget, onEnd);
      this.#responseDecoder = decoderFor(headers['content-encoding']?.toString(), response, 2 * bodyLimit, budget);
      // What cannot be decoded is not kept.
      if (this.#responseDecoder !== undefined) this.#response = response;
    } catch (error) {
      this.#fail(error);
    }
  }

  /** A piece of the answer's body, as it was sent; see {@link requestChunk}. */
  responseChunk(chunk: Buffer): void {
    if (this.#over || this.#ended) return;
    try {
      this.#responseDecoder?.write(chunk);
    } catch (error) {
      this.#fail(error);
    }
  }

  /** The exchange is over: the answer has ended or broken off, or the client has left. What came is recorded. */
  end(): void {
    if (this.#over || this.#ended) return;
    this.#ended = true;
    this.#endedAfter = performance.now() - this.#begun;
    this.requestEnd();
    try {
      if (this.#responseDecoder === undefined) this.#onResponseDecoded();
      else this.#responseDecoder.end();
    } catch (error) {
      this.#fail(error);
    }
  }

  #onRequestDecoded(): void {
    this.#requestDecoded = true;
    const { cut, outline } = this.#request;
    const counts = cut ? this.#path.endsWith(COMPLETIONS) : outline.complete && outline.hasMessages;
    if (counts) this.#settle();
    else this.#giveUp();
  }

  #onResponseDecoded(): void {
    this.#responseDecoded = true;
    this.#settle();
  }

  #settle(): void {
    if (this.#over || !this.#ended || !this.#requestDecoded || !this.#responseDecoded) return;
    try {
      this.#record();
    } catch (error) {
      this.#fail(error);
    }
  }

  #record(): void {
    const { store, log } = this.#parts;
    const headers = this.#headers;
    const path = this.#path;
    const header = idTooLong(headers);
    if (header !== undefined)
      log.warn(`${header} has more than 256 bytes: it is ignored; send a shorter one`, { path });
    const request = this.#request;
    const response = this.#response;
    const says = response instanceof RecordedEvents ? response.completion : response?.outline;
    const truncated = response?.cut ?? false;
    const body = response?.take();
    store.add({
      epochMs: this.#epochMs,
      path,
      conversationId: correlationOf(headers).conversationId,
      completionId: says?.id,
      model: says?.model,
      statusCode: this.#status,
      durationMs: Math.round(this.#endedAfter),
      request: { truncated: request.cut, body: request.take() },
      response: { truncated, body },
    });
    this.#told?.({
      ...completionUsage(body),
      completionId: says?.id,
      requestModel: request.outline.model,
      responseModel: says?.model,
      statusCode: this.#status,
      endedAt: this.#begun + this.#endedAfter,
    });
  }

  #giveUp(): void {
    this.#over = true;
    this.#request.release();
    this.#response?.release();
  }

  #fail(error: unknown): void {
    this.#giveUp();
    this.#parts.log.error('an interaction could not be recorded', { path: this.#path, error });
  }
}

/**
 * Bounds what the exchanges under way hold together of their bodies, decoded or not. One holds a few MiB per direction at
 * most, but there may be thousands: what comes when the budget is used up is not recorded, and the record says that it was cut.
 */
export class MemoryBudget {
  #left: number;

  constructor(bytes: number) {
    this.#left = bytes;
  }

  /** Takes as much. False: there is not enough, and nothing was taken. */
  take(bytes: number): boolean {
    if (bytes > this.#left) return false;
    this.#left -= bytes;
    return true;
  }

  /** Gives back what was taken. */
  give(bytes: number): void {
    this.#left += bytes;
  }
}

/** What a recorder works with. */
export interface RecorderOptions {
  /** Its capacity is asked of it for each exchange. */
  readonly store: Pick<InteractionStore, 'capacity' | 'add'>;
  readonly log: TargetLogger;
  /** Bytes kept of each body (default 4 MiB, decisions 8). */
  readonly bodyLimit?: number;
  /** Bytes kept of all bodies of exchanges under way (default 256 MiB). */
  readonly underWayLimit?: number;
}

/**
 * Records the chat completions that pass (decisions 4.8). The relay tells of each exchange what it passes on, behind
 * having passed it on; nothing that it does here waits, throws or takes long.
 *
 * @example
 * const recording = recorder.begin(request.method, request.url, request.headers);
 * upstream.write(chunk);
 * recording?.requestChunk(chunk);
 */
export class InteractionRecorder {
  readonly #store: Pick<InteractionStore, 'capacity'>;
  readonly #parts: RecordingParts;

  constructor({ store, log, bodyLimit = 4 * 1024 * 1024, underWayLimit = 256 * 1024 * 1024 }: RecorderOptions) {
    this.#store = store;
    this.#parts = { store, log, bodyLimit, budget: new MemoryBudget(underWayLimit) };
  }

  /**
   * An exchange whose request has just come, as it came. Undefined when nothing of it will be recorded. `told` is what is
   * to know of it too, once it was recorded.
   */
  begin(
    method: string,
    target: string,
    headers: IncomingHttpHeaders,
    told?: (completion: RecordedCompletion) => void,
  ): ExchangeRecording | undefined {
    if (method !== 'POST' || this.#store.capacity === 0) return undefined;
    return new ExchangeRecording(this.#parts, target, headers, told);
  }
}

/** What the filter works with. */
export interface InterceptParts {
  readonly recorder: Pick<InteractionRecorder, 'begin'>;
}

/** Has completions recorded that pass by the `load_balancer` behind it (decisions 1.4, 4.8). */
export function serviceIntercept({ recorder }: InterceptParts): Filter {
  return (context) => {
    const { method, path, headers, observation } = context;
    const told = observation && ((completion: RecordedCompletion) => observation.completed(completion));
    context.recording = () => recorder.begin(method, path, headers, told);
    return undefined;
  };
}

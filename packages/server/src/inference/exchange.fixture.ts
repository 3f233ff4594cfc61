import type { IncomingHttpHeaders } from 'node:http';
import { expect } from 'vitest';
import { DEFAULT_LOG_FILTER } from '../app/config/environment.ts';
import type { ResponseHeaders } from '../http/client/client.ts';
import type { RecordedCompletion } from '../telemetry/completions.ts';
import { createLogger } from '../telemetry/log.ts';
import { deliverChunks } from './chunks.fixture.ts';
import { type Interaction, InteractionStore, type RecordedBody } from './interaction-store.ts';
import { type InterceptOptions, interactionRecorder, type RecorderOptions } from './recorder.ts';

/** One proxied exchange. */
export interface Exchange {
  readonly method?: string;
  readonly target?: string;
  readonly headers?: IncomingHttpHeaders;
  readonly request?: string | Buffer;
  /** False for a client that disconnects before the request is complete. */
  readonly requestEnds?: boolean;
  /** 0 for an exchange without a response. */
  readonly status?: number;
  readonly responseHeaders?: ResponseHeaders;
  readonly response?: string | Buffer;
  /** Positions at which both bodies are split into chunks. */
  readonly splitAt?: readonly number[];
}

/** Body of a completion request. */
export const COMPLETION_REQUEST = '{"model":"m","messages":[{"role":"user","content":"Hello"}]}';

/** Body of a completion response. */
export const COMPLETION_RESPONSE =
  '{"id":"c-1","model":"big","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"}}]}';
/** Headers of an event stream. */
export const EVENTS = { 'content-type': 'text/event-stream; charset=utf-8' };

export const MIB = 1024 * 1024;
/** Recorded bytes per body. */
export const LIMIT = 4 * MIB;

/** JSON object of exactly this size. */
export function sized(bytes: number, members: string): string {
  const head = `{${members},"padding":"`;
  return `${head}${'x'.repeat(bytes - head.length - 2)}"}`;
}

/** Recorder with its own store and log. */
export class RecordedExchanges {
  readonly store = new InteractionStore(10_000);
  readonly log: string[] = [];
  /** What was reported to telemetry. */
  readonly completions: RecordedCompletion[] = [];
  readonly startRecording: InterceptOptions['startRecording'];

  constructor(limits: Pick<RecorderOptions, 'bodyLimit' | 'totalLimit'> = {}) {
    const log = createLogger(DEFAULT_LOG_FILTER, (line) => this.log.push(line)).target('service::inference');
    this.startRecording = interactionRecorder({ store: this.store, log, ...limits });
  }

  /** Reports a whole exchange to the recorder. */
  replay(exchange: Exchange): void {
    const {
      method = 'POST',
      target = '/v1/chat/completions',
      headers = {},
      request = COMPLETION_REQUEST,
      splitAt = [],
    } = exchange;
    const { status = 200, responseHeaders = {}, response = '', requestEnds = true } = exchange;
    const recording = this.startRecording({ method, target, headers }, (completion) =>
      this.completions.push(completion),
    );
    deliverChunks(Buffer.from(request), splitAt, (chunk) => recording?.requestChunk(chunk));
    if (requestEnds) recording?.requestEnd();
    if (status !== 0) {
      recording?.responseHead(status, responseHeaders);
      deliverChunks(Buffer.from(response), splitAt, (chunk) => recording?.responseChunk(chunk));
    }
    recording?.end();
  }

  /** Returns the interaction of an exchange without compression; undefined if it was not recorded. */
  recordPlain(exchange: Exchange): Interaction | undefined {
    this.replay(exchange);
    return this.#takeRecorded();
  }

  /** Returns the interaction of an exchange, which must be recorded, after decompression. */
  async record(exchange: Exchange): Promise<Interaction | undefined> {
    this.replay(exchange);
    await expect.poll(() => this.store.list().length, { interval: 5, timeout: 20_000 }).toBe(1);
    return this.#takeRecorded();
  }

  #takeRecorded(): Interaction | undefined {
    const [found] = this.store.list();
    // The store drops the bodies of its own objects.
    const copy = found && copyOf(found);
    this.store.clear();
    return copy;
  }
}

function copyOf(found: Interaction): Interaction {
  const { epochMs, path, conversationId, completionId, model, statusCode, durationMs, request, response } = found;
  return { epochMs, path, conversationId, completionId, model, statusCode, durationMs, request, response };
}

/** Returns the body as the API returns it. */
export function bodyValue({ body }: RecordedBody): unknown {
  if (body === undefined) return null;
  return body.isJson ? JSON.parse(body.bytes.toString()) : body.bytes.toString();
}

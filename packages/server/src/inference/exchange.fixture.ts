import type { IncomingHttpHeaders } from 'node:http';
import { expect } from 'vitest';
import { DEFAULT_LOG_FILTER } from '../app/config/environment.ts';
import type { ResponseHeaders } from '../http/client/client.ts';
import { createLogger } from '../telemetry/log.ts';
import { type Interaction, InteractionStore, type RecordedBody } from './interaction-store.ts';
import { givePieces } from './pieces.fixture.ts';
import { InteractionRecorder, type RecorderOptions } from './recorder.ts';

/** One exchange as the relay sees it. */
export interface Exchange {
  readonly method?: string;
  readonly target?: string;
  readonly headers?: IncomingHttpHeaders;
  readonly request?: string | Buffer;
  /** False for a client that leaves before its request was sent. */
  readonly requestEnds?: boolean;
  /** 0 for an exchange without an answer. */
  readonly status?: number;
  readonly answerHeaders?: ResponseHeaders;
  readonly answer?: string | Buffer;
  /** Where both bodies are cut into pieces. */
  readonly places?: readonly number[];
}

/** A request for a completion. */
export const ASKING = '{"model":"m","messages":[{"role":"user","content":"Hello"}]}';

/** What may be answered. */
export const ANSWER =
  '{"id":"c-1","model":"big","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"}}]}';
/** Headers of an answer that is an event stream. */
export const EVENTS = { 'content-type': 'text/event-stream; charset=utf-8' };

export const MIB = 1024 * 1024;
/** Bytes that are kept of a body. */
export const LIMIT = 4 * MIB;

/** A JSON object of exactly so many bytes. */
export function sized(bytes: number, members: string): string {
  const head = `{${members},"filling":"`;
  return `${head}${'x'.repeat(bytes - head.length - 2)}"}`;
}

/** A recorder with a store and a log of its own. */
export class RecordedExchanges {
  readonly store = new InteractionStore(10_000);
  readonly log: string[] = [];
  readonly recorder: InteractionRecorder;

  constructor(limits: Pick<RecorderOptions, 'bodyLimit' | 'underWayLimit'> = {}) {
    const log = createLogger(DEFAULT_LOG_FILTER, (line) => this.log.push(line)).target('service::inference');
    this.recorder = new InteractionRecorder({ store: this.store, log, ...limits });
  }

  /** Tells the recorder of one exchange, from its beginning to its end. */
  tell(exchange: Exchange): void {
    const { method = 'POST', target = '/v1/chat/completions', headers = {}, request = ASKING, places = [] } = exchange;
    const { status = 200, answerHeaders = {}, answer = '', requestEnds = true } = exchange;
    const recording = this.recorder.begin(method, target, headers);
    givePieces(Buffer.from(request), places, (piece) => recording?.requestChunk(piece));
    if (requestEnds) recording?.requestEnd();
    if (status !== 0) {
      recording?.responseHead(status, answerHeaders);
      givePieces(Buffer.from(answer), places, (piece) => recording?.responseChunk(piece));
    }
    recording?.end();
  }

  /** What is recorded of an exchange whose bodies are not compressed; undefined when it is nothing. */
  recordPlain(exchange: Exchange): Interaction | undefined {
    this.tell(exchange);
    return this.#taken();
  }

  /** What is recorded of an exchange; it has to be something. Decompressing takes its time. */
  async record(exchange: Exchange): Promise<Interaction | undefined> {
    this.tell(exchange);
    await expect.poll(() => this.store.list().length, { interval: 5, timeout: 20_000 }).toBe(1);
    return this.#taken();
  }

  #taken(): Interaction | undefined {
    const [found] = this.store.list();
    // Its bodies have to outlive the store's.
    const kept = found && plain(found);
    this.store.clear();
    return kept;
  }
}

function plain(found: Interaction): Interaction {
  const { epochMs, path, conversationId, completionId, model, statusCode, durationMs, request, response } = found;
  return { epochMs, path, conversationId, completionId, model, statusCode, durationMs, request, response };
}

/** The body as it would be answered. */
export function bodyValue({ body }: RecordedBody): unknown {
  if (body === undefined) return null;
  return body.isJson ? JSON.parse(body.bytes.toString()) : body.bytes.toString();
}

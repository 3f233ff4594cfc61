import type { ReconnectDelayOptions } from '@sluice/protocol/backoff';
import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { sendableId } from '@sluice/protocol/mcp/event-stream';
import type { UpstreamTransport } from '../../../http/client/client.ts';
import { isSessionNotFound } from '../client.ts';
import {
  type ConnectionEnd,
  type ConnectionSink,
  isTemporary,
  ReconnectingConnection,
  StreamConnection,
} from './reconnecting-stream.ts';

/** What a {@link SessionStream} calls back; never from inside its constructor, and nothing after `close`. */
export interface SessionStreamSink {
  /**
   * One JSON-RPC message of the upstream, as text and parsed (arrays of messages are taken apart). False: send no more
   * until `resume`; what has arrived already still comes.
   */
  onMessage(text: string, value: JsonObject): boolean;
  /** The stream is there. `gap`: messages may have been missed since the last time (it was not resumed by event id). */
  onOpen(gap: boolean): void;
  /** The upstream no longer knows the session; the stream is over. */
  onSessionLost(): void;
  /** The upstream offers no such stream; this one is over. */
  onUnavailable?(): void;
}

export interface SessionStreamOptions extends ReconnectDelayOptions {
  /** Bound on one event, in bytes (default 64 MiB, decisions 8). */
  readonly maxEventBytes?: number;
}

/** Of a link's headers, those that are not for a GET. */
const NOT_FOR_GET = new Set(['accept', 'content-type', 'last-event-id']);

/** A stream that was open for so long is one that stays. */
const SETTLED_MS = 10_000;

/**
 * The notification stream of a legacy upstream session (2025-11-25, "Listening for Messages from the Server"): opened at
 * once, and again whenever it ends, after the time that the upstream asked for and from the event where it ended. An
 * upstream that offers none (405 or another 4xx) is left in peace. There is no limit on silence.
 */
export class SessionStream implements ConnectionSink {
  readonly #transport: UpstreamTransport;
  readonly #headers: readonly string[];
  readonly #sink: SessionStreamSink;
  readonly #maxEventBytes: number | undefined;
  readonly #lasting: ReconnectingConnection;
  #lastEventId: string | undefined = undefined;
  /** Of the stream that is open, in milliseconds of `performance.now()`. */
  #openedAt: number | undefined = undefined;
  /** What was asked on this connection: a first one has nothing to miss. */
  #asked: 'first' | 'anew' | 'resume' = 'first';

  /** `headers` are those of the session's link, alternating names and values; what a POST alone needs is left out. */
  constructor(
    transport: UpstreamTransport,
    headers: readonly string[],
    sink: SessionStreamSink,
    { maxEventBytes, ...delays }: SessionStreamOptions = {},
  ) {
    this.#transport = transport;
    this.#headers = headersForGet(headers);
    this.#sink = sink;
    this.#maxEventBytes = maxEventBytes;
    this.#lasting = new ReconnectingConnection(() => this.#connect(), delays);
    this.#lasting.open();
  }

  /** Goes on after `onMessage` returned false. */
  resume(): void {
    this.#lasting.resume();
  }

  /** Ends it, without calling back. */
  close(): void {
    this.#lasting.close();
  }

  onStream(): void {
    this.#openedAt = performance.now();
    this.#sink.onOpen(this.#asked === 'anew');
  }

  onMessage(text: string, value: JsonObject): boolean {
    this.#lasting.delay.reset();
    return this.#lasting.pass(() => this.#sink.onMessage(text, value));
  }

  onCursor(id: string | undefined, retryMs: number | undefined): void {
    if (id !== undefined) this.#lastEventId = sendableId(id);
    if (retryMs !== undefined) this.#lasting.delay.asked(retryMs);
  }

  onOver(end: ConnectionEnd): void {
    // One that ends as soon as it is there, with nothing said and nothing to resume from, is asked less and less often.
    const lasted = performance.now() - (this.#openedAt ?? Number.POSITIVE_INFINITY);
    if (lasted > SETTLED_MS || (this.#openedAt !== undefined && this.#lastEventId !== undefined)) {
      this.#lasting.delay.reset();
    }
    this.#openedAt = undefined;
    if (end.kind === 'answered') return this.#answered(end);
    const { error } = end;
    if (error?.kind === 'redirect' || error?.kind === 'aborted') return this.#unavailable();
    // It would be the same event again.
    if (error?.kind === 'too-large') this.#lastEventId = undefined;
    this.#later();
  }

  #answered({ status, value }: Extract<ConnectionEnd, { kind: 'answered' }>): void {
    if (isTemporary(status)) return this.#later();
    if (status !== 404 && status >= 400 && status < 500 && this.#asked === 'resume') {
      // The upstream cannot do anything with the event id.
      this.#lastEventId = undefined;
      return this.#later();
    }
    const code = isJsonObject(value?.error) ? value.error.code : undefined;
    if (isSessionNotFound(status, typeof code === 'number' ? code : undefined)) {
      this.close();
      this.#sink.onSessionLost();
    } else {
      this.#unavailable();
    }
  }

  #unavailable(): void {
    this.close();
    this.#sink.onUnavailable?.();
  }

  #later(): void {
    this.#lasting.openLater();
    if (this.#asked === 'first') this.#asked = 'anew';
  }

  #connect(): StreamConnection {
    const headers = [...this.#headers];
    if (this.#lastEventId !== undefined) {
      headers.push('last-event-id', this.#lastEventId);
      this.#asked = 'resume';
    } else if (this.#asked === 'resume') {
      this.#asked = 'anew';
    }
    return new StreamConnection(this.#transport, { method: 'GET', headers }, this, this.#maxEventBytes);
  }
}

function headersForGet(headers: readonly string[]): string[] {
  const kept = ['accept', 'text/event-stream'];
  for (let index = 0; index + 1 < headers.length; index += 2) {
    const name = headers[index] ?? '';
    if (!NOT_FOR_GET.has(name.toLowerCase())) kept.push(name, headers[index + 1] ?? '');
  }
  return kept;
}

/**
 * True for an update of a watched resource and of a part of one: an upstream may name what exactly has changed (schema
 * of both eras, `ResourceUpdatedNotification`).
 */
export function concerns(watched: ReadonlySet<string>, uri: string): boolean {
  if (watched.has(uri)) return true;
  for (const whole of watched) if (uri.startsWith(whole) && isBelow(whole, uri)) return true;
  return false;
}

/** Whether what follows on the watched uri begins a part of it, and not another name: `/a` and `/a/b`, not `/ab`. */
function isBelow(watched: string, uri: string): boolean {
  return watched.endsWith('/') || '/?#'.includes(uri[watched.length] ?? '');
}

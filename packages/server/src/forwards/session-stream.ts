import { isJsonObject, type JsonObject } from '../json/lossless.ts';
import { ReconnectDelay, type ReconnectDelayOptions } from './reconnect-delay.ts';
import { tellsSessionLost } from './session-loss.ts';
import { type ConnectionEnd, type ConnectionSink, isTemporary, StreamConnection } from './stream-connection.ts';
import type { UpstreamTransport } from './transport.ts';

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

/** An event id that can be sent back as a header, and is worth it. */
const SENDABLE_ID = /^[\x21-\x7e](?:[\x20-\x7e]{0,4094}[\x21-\x7e])?$/;
/** Of a link's headers, those that are not for a GET. */
const NOT_FOR_GET = new Set(['accept', 'content-type', 'last-event-id']);

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
  readonly #delay: ReconnectDelay;
  #connection: StreamConnection | undefined = undefined;
  #timer: NodeJS.Timeout | undefined = undefined;
  #paused = false;
  /** `resume` was called, perhaps by the sink while it is being called itself. */
  #resumed = false;
  /** The time to connect again came while the sink wanted no more. */
  #due = false;
  #closed = false;
  #lastEventId: string | undefined = undefined;
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
    this.#delay = new ReconnectDelay(delays);
    this.#connect();
  }

  /** Goes on after `onMessage` returned false. */
  resume(): void {
    this.#resumed = true;
    if (!this.#paused) return;
    this.#paused = false;
    if (this.#due) this.#connect();
    else this.#connection?.resume();
  }

  /** Ends it, without calling back. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#connection?.close();
    this.#connection = undefined;
  }

  onStream(): void {
    this.#delay.reset();
    this.#sink.onOpen(this.#asked === 'anew');
  }

  onMessage(text: string, value: JsonObject): boolean {
    this.#resumed = false;
    const more = this.#sink.onMessage(text, value) || this.#resumed;
    if (!more) this.#paused = true;
    return more;
  }

  onCursor(id: string | undefined, retryMs: number | undefined): void {
    if (id !== undefined) this.#lastEventId = SENDABLE_ID.test(id) ? id : undefined;
    if (retryMs !== undefined) this.#delay.asked(retryMs);
  }

  onOver(end: ConnectionEnd): void {
    this.#connection = undefined;
    if (end.kind === 'answered') return this.#answered(end);
    const { error } = end;
    if (error?.kind === 'redirect' || error?.kind === 'aborted') return this.#unavailable();
    // It would be the same event again.
    if (error?.kind === 'too-large') this.#lastEventId = undefined;
    this.#later();
  }

  #answered({ status, value }: Extract<ConnectionEnd, { kind: 'answered' }>): void {
    if (status !== 404 && status >= 400 && status < 500 && status !== 409 && this.#asked === 'resume') {
      // The upstream cannot do anything with the event id.
      this.#lastEventId = undefined;
      return this.#later();
    }
    const code = isJsonObject(value?.error) ? value.error.code : undefined;
    if (tellsSessionLost(status, typeof code === 'number' ? code : undefined)) {
      this.close();
      this.#sink.onSessionLost();
    } else if (isTemporary(status)) {
      this.#later();
    } else {
      this.#unavailable();
    }
  }

  #unavailable(): void {
    this.close();
    this.#sink.onUnavailable?.();
  }

  #later(): void {
    this.#timer = setTimeout(() => {
      if (this.#paused) this.#due = true;
      else this.#connect();
    }, this.#delay.next()).unref();
    if (this.#asked === 'first') this.#asked = 'anew';
  }

  #connect(): void {
    if (this.#closed) return;
    this.#due = false;
    const headers = [...this.#headers];
    if (this.#lastEventId !== undefined) {
      headers.push('last-event-id', this.#lastEventId);
      this.#asked = 'resume';
    } else if (this.#asked === 'resume') {
      this.#asked = 'anew';
    }
    this.#connection = new StreamConnection(this.#transport, { method: 'GET', headers }, this, this.#maxEventBytes);
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

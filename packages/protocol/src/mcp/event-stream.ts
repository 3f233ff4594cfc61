/**
 * `text/event-stream` in both directions: an incremental decoder for responses of upstreams and an encoder for responses to
 * clients (HTML standard, "Server-sent events").
 */

/** One event of a stream. */
export interface ServerSentEvent {
  /** The exact text of the event's data lines, joined by LF; also empty for a block with only an id or a retry. */
  readonly data: string;
  /** The event's type; undefined for the default, `message`. */
  readonly event?: string | undefined;
  /** The event's id, if it has one. */
  readonly id?: string | undefined;
  /** Milliseconds to wait before reconnecting, if the event has one. */
  readonly retry?: number | undefined;
}

/** Error passed once to an {@link EventSink} when an event exceeds the decoder's limit. */
export class EventTooLargeError extends Error {
  override readonly name = 'EventTooLargeError';
  /** The exceeded limit, in bytes. */
  readonly maxEventBytes: number;

  constructor(maxEventBytes: number) {
    super(`an event of the stream is larger than ${maxEventBytes} bytes`);
    this.maxEventBytes = maxEventBytes;
  }
}

/** Data of an event from this size on are passed on as they arrive, to a sink that takes them. */
export const LARGE_EVENT_BYTES = 64 * 1024;

/** Callbacks of a decoder. An object with methods, so that a call's own class can be its sink without closures. */
export interface EventSink {
  onEvent(event: ServerSentEvent): void;
  /**
   * The next bytes of the data of an event over {@link LARGE_EVENT_BYTES}; lines are joined by LF. A sink that decodes and
   * parses them at once would block the event loop.
   */
  onLargeData?(bytes: Buffer): void;
  /** The end of an event whose data were passed to `onLargeData`. */
  onLargeEvent?(event: Omit<ServerSentEvent, 'data'>): void;
  /** Decoding has failed; no callback follows. */
  onEventError(error: EventTooLargeError): void;
}

/** Maximum `retry` of a server that is honored, in milliseconds. */
export const MAX_RETRY_MS = 60 * 60_000;

const SENDABLE_ID = /^[\x21-\x7e](?:[\x20-\x7e]{0,4094}[\x21-\x7e])?$/;

/** The event id if it can be sent in the header `Last-Event-ID` and is not too long for that. */
export function sendableId(id: string): string | undefined {
  return SENDABLE_ID.test(id) ? id : undefined;
}

const LF = 10;
const CR = 13;
const COLON = 58;
const SPACE = 32;
/** First letters of `event`, `id` and `retry`. */
const LETTER_E = 0x65;
const LETTER_I = 0x69;
const LETTER_R = 0x72;
/** Length of lines that are searched here: a native search costs as much as this. */
const SHORT_LINE_BYTES = 16;
/** Cost of a data line besides its text: without it, empty lines could accumulate below the limit. */
const LINE_COST = 8;
const DEFAULT_MAX_EVENT_BYTES = 64 * 1024 * 1024;
/** Joins data lines. */
const LINE_FEED = Buffer.of(LF);

/**
 * Decoder of one event stream. It works on bytes and decodes only the returned values, so a chunk may end anywhere:
 * inside a UTF-8 character, between CR and LF, inside the byte order mark. As in the standard, an event without its
 * final empty line at the end of the stream is dropped.
 *
 * @example
 * const decoder = new EventStreamDecoder({ onEvent: (event) => handle(event.data), onEventError: fail });
 * socket.on('data', (chunk) => decoder.write(chunk));
 */
export class EventStreamDecoder {
  readonly #sink: EventSink;
  readonly #maxEventBytes: number;
  readonly #maxLineBytes: number;
  /** Start of an incomplete line; grows by doubling, so that tiny chunks cost no more than large ones. */
  #partial: Buffer | undefined = undefined;
  #partialBytes = 0;
  #atStart = true;
  #skipLineFeed = false;
  #stopped = false;
  #data: string | undefined = undefined;
  /** Data lines after the first; joined once at the event's end. */
  #moreData: string[] | undefined = undefined;
  #dataBytes = 0;
  /** The data of this event are passed on as they arrive; and the current line is part of them. */
  #isLarge = false;
  #isInLargeLine = false;
  #event: string | undefined = undefined;
  #id: string | undefined = undefined;
  #retry: number | undefined = undefined;

  /**
   * `maxEventBytes` bounds one event's data and any one line (default 64 MiB); `maxLineBytes` a line that is stored until it is
   * complete (default: the same), unlike data for a sink that takes large ones.
   */
  constructor(sink: EventSink, maxEventBytes: number = DEFAULT_MAX_EVENT_BYTES, maxLineBytes: number = maxEventBytes) {
    this.#sink = sink;
    this.#maxEventBytes = maxEventBytes;
    this.#maxLineBytes = maxLineBytes;
  }

  /** Ends decoding: no further callbacks, not even for the rest of the chunk being decoded. */
  stop(): void {
    this.#stopped = true;
    this.#partial = undefined;
    this.#partialBytes = 0;
    this.#data = undefined;
    this.#moreData = undefined;
    this.#isLarge = false;
    this.#isInLargeLine = false;
  }

  /** Decodes the next bytes of the stream; callbacks for the events that they complete are made before this returns. */
  write(chunk: Buffer): void {
    const length = chunk.length;
    if (this.#stopped || length === 0) return;
    let position = 0;
    if (this.#skipLineFeed) {
      this.#skipLineFeed = false;
      if (chunk[0] === LF) position = 1;
    }
    // Two cursors over native searches: a stream without CR pays for looking for one once per chunk, not per line.
    let lineFeed = indexOfLineFeed(chunk, position);
    let carriageReturn = chunk.indexOf(CR, position);
    while (lineFeed !== -1 || carriageReturn !== -1) {
      let end = lineFeed;
      let next = lineFeed + 1;
      if (carriageReturn !== -1 && (lineFeed === -1 || carriageReturn < lineFeed)) {
        end = carriageReturn;
        next = carriageReturn + 1;
        if (next === length) this.#skipLineFeed = true;
        else if (chunk[next] === LF) next++;
      }
      if (this.#isInLargeLine) {
        this.#isInLargeLine = false;
        this.#addLarge(chunk, position, end);
      } else if (this.#partial === undefined) {
        this.#parseLine(chunk, position, end);
      } else {
        this.#appendPartial(chunk, position, end);
        const line = this.#partial;
        const lineBytes = this.#partialBytes;
        this.#partial = undefined;
        this.#partialBytes = 0;
        this.#parseLine(line, 0, lineBytes);
      }
      if (this.#stopped) return;
      position = next;
      if (lineFeed !== -1 && lineFeed < position) lineFeed = indexOfLineFeed(chunk, position);
      if (carriageReturn !== -1 && carriageReturn < position) {
        carriageReturn = chunk[position] === CR ? position : chunk.indexOf(CR, position);
      }
    }
    if (position === length) return;
    if (this.#isInLargeLine) return this.#addLarge(chunk, position, length);
    this.#appendPartial(chunk, position, length);
    if (this.#partialBytes + this.#dataBytes > this.#maxEventBytes) this.#failTooLarge();
    else if (this.#partialBytes + this.#dataBytes > LARGE_EVENT_BYTES) this.#beginLargeLine();
    if (this.#partialBytes > this.#maxLineBytes) this.#failTooLarge();
  }

  /** Passes the start of an incomplete line on if it is one of data. */
  #beginLargeLine(): void {
    const line = this.#partial;
    if (!line || !this.#sink.onLargeData) return;
    const end = this.#partialBytes;
    const start = this.#skipMark(line, 0, end);
    if (!isDataLine(line, start, end) || end < start + 6) return;
    this.#partial = undefined;
    this.#partialBytes = 0;
    this.#isInLargeLine = true;
    this.#dataBytes += LINE_COST;
    this.#beginLarge();
    this.#addLarge(line, valueStart(line, start + 4, end), end);
  }

  /** Passes the data on from now on, beginning with those of previous lines. */
  #beginLarge(): void {
    const isFirst = !this.#isLarge && this.#data === undefined;
    if (!this.#isLarge && this.#data !== undefined) this.#sink.onLargeData?.(Buffer.from(this.#joinedData(this.#data)));
    if (this.#stopped) return;
    this.#isLarge = true;
    this.#data = undefined;
    if (!isFirst) this.#sink.onLargeData?.(LINE_FEED);
  }

  #addLarge(bytes: Buffer, start: number, end: number): void {
    if (this.#stopped) return;
    this.#dataBytes += end - start;
    if (this.#dataBytes > this.#maxEventBytes) this.#failTooLarge();
    else if (end > start) this.#sink.onLargeData?.(bytes.subarray(start, end));
  }

  /** Takes the data of previous lines, of which this is the first. */
  #joinedData(first: string): string {
    const more = this.#moreData;
    this.#moreData = undefined;
    return more === undefined ? first : `${first}\n${more.join('\n')}`;
  }

  /** The position after the byte order mark, if the stream begins with one. */
  #skipMark(bytes: Buffer, start: number, end: number): number {
    if (!this.#atStart) return start;
    this.#atStart = false;
    const hasMark = bytes[start] === 0xef && bytes[start + 1] === 0xbb && bytes[start + 2] === 0xbf && start + 3 <= end;
    return hasMark ? start + 3 : start;
  }

  #appendPartial(chunk: Buffer, start: number, end: number): void {
    const bytes = this.#partialBytes + end - start;
    if (this.#partial === undefined || this.#partial.length < bytes) {
      const grown = Buffer.allocUnsafe(Math.max(1024, bytes * 2));
      this.#partial?.copy(grown, 0, 0, this.#partialBytes);
      this.#partial = grown;
    }
    chunk.copy(this.#partial, this.#partialBytes, start, end);
    this.#partialBytes = bytes;
  }

  #parseLine(bytes: Buffer, from: number, end: number): void {
    const start = this.#skipMark(bytes, from, end);
    if (start === end) {
      this.#dispatch();
      return;
    }
    const first = bytes[start];
    if (first === COLON) return;
    if (isDataLine(bytes, start, end)) {
      const value = valueStart(bytes, start + 4, end);
      if (this.#isLarge || (this.#dataBytes + end - value > LARGE_EVENT_BYTES && this.#sink.onLargeData)) {
        this.#dataBytes += LINE_COST;
        this.#beginLarge();
        this.#addLarge(bytes, value, end);
        return;
      }
      this.#dataBytes += end - value + LINE_COST;
      if (this.#dataBytes > this.#maxEventBytes) {
        this.#failTooLarge();
        return;
      }
      const text = bytes.toString('utf8', value, end);
      if (this.#data === undefined) this.#data = text;
      else if (this.#moreData === undefined) this.#moreData = [text];
      else this.#moreData.push(text);
      return;
    }
    if (isMessageType(bytes, start, end)) {
      this.#event = undefined;
      return;
    }
    // All other lines are ignored, without a string for their name.
    if (first !== LETTER_E && first !== LETTER_I && first !== LETTER_R) return;
    // These names have at most five letters: limiting the search keeps long lines cheap.
    let colon = start + 1;
    while (colon < end && bytes[colon] !== COLON && colon - start <= 5) colon++;
    const name = bytes.toString('latin1', start, colon);
    if (name !== 'event' && name !== 'id' && name !== 'retry') return;
    const value = bytes.toString('utf8', valueStart(bytes, colon, end), end);
    if (name === 'event') this.#event = value;
    else if (name === 'id') {
      if (!value.includes('\0')) this.#id = value;
    } else if (/^[0-9]+$/.test(value)) {
      this.#retry = Number(value);
    }
  }

  #dispatch(): void {
    const first = this.#data;
    // Both are the default type.
    const event = this.#event === '' || this.#event === 'message' ? undefined : this.#event;
    const id = this.#id;
    const retry = this.#retry;
    this.#event = undefined;
    this.#id = undefined;
    this.#retry = undefined;
    if (this.#isLarge) {
      this.#isLarge = false;
      this.#dataBytes = 0;
      this.#sink.onLargeEvent?.({ event, id, retry });
      return;
    }
    if (first === undefined) {
      // Not an event, but its id and reconnection time still apply.
      if (id !== undefined || retry !== undefined) this.#sink.onEvent({ data: '', event: undefined, id, retry });
      return;
    }
    this.#dataBytes = 0;
    this.#data = undefined;
    const data = this.#moreData === undefined ? first : this.#joinedData(first);
    this.#sink.onEvent({ data, event, id, retry });
  }

  #failTooLarge(): void {
    this.stop();
    this.#sink.onEventError(new EventTooLargeError(this.#maxEventBytes));
  }
}

function indexOfLineFeed(chunk: Buffer, from: number): number {
  const near = Math.min(from + SHORT_LINE_BYTES, chunk.length);
  for (let at = from; at < near; at++) if (chunk[at] === LF) return at;
  return near === chunk.length ? -1 : chunk.indexOf(LF, near);
}

/** Nearly every line is `data`, which is compared in bytes, without creating a string for the name. */
function isDataLine(bytes: Buffer, start: number, end: number): boolean {
  return (
    bytes[start] === 0x64 &&
    bytes[start + 1] === 0x61 &&
    bytes[start + 2] === 0x74 &&
    bytes[start + 3] === 0x61 &&
    (end === start + 4 || (end > start + 4 && bytes[start + 4] === COLON))
  );
}

/** Most servers send this type; it is compared in bytes, like the name `data`. */
const MESSAGE_TYPE = Buffer.from('event: message');

function isMessageType(bytes: Buffer, start: number, end: number): boolean {
  if (end - start !== MESSAGE_TYPE.length) return false;
  for (let at = 0; at < MESSAGE_TYPE.length; at++) if (bytes[start + at] !== MESSAGE_TYPE[at]) return false;
  return true;
}

/** Returns the start of a field's value: after the colon and one space. */
function valueStart(bytes: Buffer, colon: number, end: number): number {
  if (colon >= end) return end;
  return bytes[colon + 1] === SPACE && colon + 1 < end ? colon + 2 : colon + 1;
}

/**
 * The text of one event with its final empty line. Multi-line data becomes several data lines (CR and CRLF become LF,
 * since the format has no other form). Throws RangeError for a line break in `event` or `id`, which would forge fields.
 */
export function encodeEvent(event: ServerSentEvent): string {
  let text = '';
  if (event.event !== undefined) text += `event: ${requireSingleLine('event', event.event)}\n`;
  if (event.id !== undefined) text += `id: ${requireSingleLine('id', event.id)}\n`;
  if (event.retry !== undefined) text += `retry: ${event.retry}\n`;
  return withData(text, event.data);
}

/** The text of a message as an event with this id, which must not contain a line break or NUL. */
export function encodeMessage(data: string, id?: string): string {
  return withData(id === undefined ? 'event: message\n' : `event: message\nid: ${id}\n`, data);
}

function withData(fields: string, data: string): string {
  if (!data.includes('\n') && !data.includes('\r')) return `${fields}data: ${data}\n\n`;
  let text = fields;
  for (const line of data.split(/\r\n|\n|\r/)) text += `data: ${line}\n`;
  return `${text}\n`;
}

function requireSingleLine(field: string, value: string): string {
  if (/[\r\n\0]/.test(value)) throw new RangeError(`an event's ${field} must not contain a line break or NUL`);
  return value;
}

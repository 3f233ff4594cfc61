const LF = 10;
const CR = 13;
const SPACE = 32;
const FIELD = 'data:';
const BYTE_ORDER_MARK = '\u00ef\u00bb\u00bf';
const LINE_BREAK = Buffer.from('\n');

/** Receives the data of events as they arrive. */
export interface EventDataSink {
  /** More data of an event; its lines are separated by LF. */
  onData(bytes: Buffer): void;
  /** The event is complete. */
  onEventEnd(): void;
}

/**
 * Passes on the data of an event stream as bytes, without collecting events: a large one is never in memory as a whole. For
 * readers that need neither types nor ids; all others use `EventStreamDecoder`, which divides lines in the same way.
 */
export class EventDataReader {
  readonly #sink: EventDataSink;
  /** The beginning of the line, as latin1, while it may be that of a data line; undefined after it. */
  #field: string | undefined = '';
  #isAtStart = true;
  #isData = false;
  #skipsSpace = false;
  #skipsLineFeed = false;
  #hasData = false;

  constructor(sink: EventDataSink) {
    this.#sink = sink;
  }

  /** Reads the next bytes of the stream. */
  write(chunk: Buffer): void {
    let at = this.#skipsLineFeed && chunk[0] === LF ? 1 : 0;
    if (chunk.length > 0) this.#skipsLineFeed = false;
    let lineFeed = chunk.indexOf(LF, at);
    let carriageReturn = chunk.indexOf(CR, at);
    while (at < chunk.length) {
      if (lineFeed !== -1 && lineFeed < at) lineFeed = chunk.indexOf(LF, at);
      if (carriageReturn !== -1 && carriageReturn < at) carriageReturn = chunk.indexOf(CR, at);
      const isReturn = carriageReturn !== -1 && (lineFeed === -1 || carriageReturn < lineFeed);
      const end = isReturn ? carriageReturn : lineFeed;
      this.#readLine(chunk, at, end === -1 ? chunk.length : end);
      if (end === -1) return;
      this.#endLine();
      at = end + 1;
      if (isReturn && at === chunk.length) this.#skipsLineFeed = true;
      else if (isReturn && chunk[at] === LF) at++;
    }
  }

  /** Reads a part of a line. */
  #readLine(chunk: Buffer, from: number, end: number): void {
    let at = from;
    while (at < end && this.#field !== undefined) {
      this.#field += String.fromCharCode(chunk[at++] ?? 0);
      if (this.#isAtStart && this.#field === BYTE_ORDER_MARK) {
        this.#isAtStart = false;
        this.#field = '';
      } else if (this.#field === FIELD) this.#startData();
      else if (!FIELD.startsWith(this.#field) && !(this.#isAtStart && BYTE_ORDER_MARK.startsWith(this.#field))) {
        this.#field = undefined;
      }
    }
    if (!this.#isData || at === end) return;
    if (this.#skipsSpace && chunk[at] === SPACE) at++;
    this.#skipsSpace = false;
    if (at < end) this.#sink.onData(chunk.subarray(at, end));
  }

  #startData(): void {
    this.#field = undefined;
    this.#isData = true;
    this.#skipsSpace = true;
    if (this.#hasData) this.#sink.onData(LINE_BREAK);
    this.#hasData = true;
  }

  #endLine(): void {
    const isEmpty = this.#field === '';
    // A field without a colon has an empty value.
    if (this.#field === 'data') this.#startData();
    this.#field = '';
    this.#isAtStart = false;
    this.#isData = false;
    this.#skipsSpace = false;
    if (!isEmpty || !this.#hasData) return;
    this.#hasData = false;
    this.#sink.onEventEnd();
  }
}

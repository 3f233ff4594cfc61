import { type LogLevel, logLine } from './log.ts';
import type { LogDestination } from './log-destination.ts';

/** Default of SERVICE_MAX_LOG_BYTES. */
export const MAX_LOG_BYTES = 64 * 1024 * 1024;

/** Characters written at once. */
export const PIECE_LENGTH = 128 * 1024;
/** Longest time until a line is written to a reader that keeps up. */
const FLUSH_MS = 50;
/** Time for the last line after lines were lost. */
const LAST_LINE_MS = 1_000;

/** Lines that are dropped first. */
const MINOR: ReadonlySet<LogLevel> = new Set(['info', 'debug', 'trace']);

/** Whole lines. */
interface Piece {
  readonly bytes: Buffer;
  readonly lines: number;
}

/**
 * Collects log lines and writes them in large pieces: their texts are joined, and encoded twenty times a second. No
 * line is lost while at most `maxBytes` wait for the reader. Beyond, lines of level info and below are dropped, and with an
 * eighth more also warnings and errors; their number is logged once the reader has caught up to half of it. After a failed write
 * only the lines of that piece are lost.
 */
export class LogSink {
  readonly #destination: LogDestination;
  readonly #maxBytes: number;
  /** Lines of the next piece. */
  #batch = '';
  #batchLines = 0;
  /** A flush is scheduled. */
  #scheduled = false;
  #lastFlush = Number.NEGATIVE_INFINITY;
  readonly #queue: Piece[] = [];
  #writing: Piece | undefined = undefined;
  /** Bytes in the queue and of the piece that is being written. */
  #waitingBytes = 0;
  /** Lines dropped since the last one that says so. */
  #droppedLines = 0;
  #droppedTotal = 0;
  #onIdle: (() => void) | undefined = undefined;

  constructor(destination: LogDestination, maxBytes: number = MAX_LOG_BYTES) {
    this.#destination = destination;
    this.#maxBytes = maxBytes;
  }

  /** Number of dropped lines. */
  readonly dropped = (): number => this.#droppedTotal;

  /** Adds a line with its line break. Never throws. */
  readonly write = (line: string, level: LogLevel): void => {
    const waiting = this.#waitingBytes + this.#batch.length;
    const isFull = waiting >= this.#maxBytes && (waiting >= this.#maxBytes * (9 / 8) || MINOR.has(level));
    if (isFull) return this.#drop(1);
    this.#add(line);
  };

  /** Writes all lines at once, for the `exit` event of the process: a pipe gets as many as it has room for. */
  readonly flush = (): void => {
    this.#queueBatch();
    const bytes = Buffer.concat(this.#queue.splice(0).map((piece) => piece.bytes));
    if (bytes.length > 0) this.#destination.writeNow(bytes);
  };

  /**
   * Waits until all lines are written, at most this long. Then the last line says how many are lost. Returns that number.
   */
  async close(timeoutMs: number): Promise<number> {
    this.#writeBatch();
    if (await this.#idle(timeoutMs)) return 0;
    this.#queueBatch();
    const lost = this.#queue.splice(0).reduce((sum, { lines, bytes }) => {
      this.#waitingBytes -= bytes.length;
      return sum + lines;
    }, 0);
    this.#droppedTotal += lost;
    this.#droppedLines += lost;
    this.#logDropped('log lines lost: standard error was not read in time');
    this.#writeBatch();
    await this.#idle(LAST_LINE_MS);
    return lost;
  }

  #add(line: string): void {
    this.#batch += line;
    this.#batchLines++;
    if (this.#batch.length >= PIECE_LENGTH) this.#writeBatch();
    else if (!this.#scheduled && this.#writing === undefined) this.#schedule();
  }

  /** The first line after a pause is written at the end of this turn, since nobody may follow it. */
  #schedule(): void {
    this.#scheduled = true;
    const dueMs = this.#lastFlush + FLUSH_MS - performance.now();
    if (dueMs <= 0) setImmediate(this.#onDue);
    else setTimeout(this.#onDue, dueMs).unref();
  }

  readonly #onDue = (): void => {
    this.#scheduled = false;
    // While a piece is being written, lines are collected for the next one.
    if (this.#writing === undefined) this.#writeBatch();
  };

  #writeBatch(): void {
    this.#queueBatch();
    this.#writeNext();
  }

  #queueBatch(): void {
    if (this.#batchLines === 0) return;
    const piece = { bytes: Buffer.from(this.#batch), lines: this.#batchLines };
    this.#batch = '';
    this.#batchLines = 0;
    this.#waitingBytes += piece.bytes.length;
    this.#queue.push(piece);
  }

  #writeNext(): void {
    if (this.#writing) return;
    const piece = this.#queue.shift();
    if (!piece) return;
    this.#writing = piece;
    this.#lastFlush = performance.now();
    this.#destination.write(piece.bytes, this.#onWritten);
  }

  readonly #onWritten = (written: boolean): void => {
    const piece = this.#writing;
    this.#writing = undefined;
    if (!piece) return;
    this.#waitingBytes -= piece.bytes.length;
    if (!written) this.#drop(piece.lines);
    else if (this.#droppedLines > 0 && this.#waitingBytes <= this.#maxBytes / 2)
      this.#logDropped('log lines dropped: standard error was not read in time');
    if (this.#queue.length > 0) this.#writeNext();
    else if (this.#batchLines === 0) this.#onIdle?.();
    else if (this.#onIdle) this.#writeBatch();
    else if (!this.#scheduled) this.#schedule();
  };

  #drop(lines: number): void {
    this.#droppedLines += lines;
    this.#droppedTotal += lines;
  }

  #logDropped(msg: string): void {
    const count = this.#droppedLines;
    this.#droppedLines = 0;
    this.#add(logLine(Date.now(), 'warn', 'service', msg, { count }));
  }

  /** Whether everything is written within this time. */
  #idle(timeoutMs: number): Promise<boolean> {
    if (this.#writing === undefined && this.#queue.length === 0 && this.#batchLines === 0) return Promise.resolve(true);
    return new Promise((resolve) => {
      const end = (isIdle: boolean) => {
        clearTimeout(timer);
        this.#onIdle = undefined;
        resolve(isIdle);
      };
      const timer = setTimeout(end, timeoutMs, false);
      const onIdle = () => end(true);
      this.#onIdle = onIdle;
    });
  }
}

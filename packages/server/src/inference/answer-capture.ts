import { isJsonObject, tryParseJson } from '@sluice/protocol/json/parse';
import { skipContainer, skipSpace } from '@sluice/protocol/json/text';
import { type EventSink, EventStreamDecoder } from '@sluice/protocol/mcp/event-stream';
import { BodyStart } from '../upstreams/mcp/body-start.ts';
import { AnswerFields } from './answer-fields.ts';
import { AnswerScan } from './answer-scan.ts';
import { ALL_FIELDS } from './apis/apis.ts';
import { BoundedBuffer, type MemoryBudget } from './bounded-memory.ts';
import type { BodySink } from './decoder.ts';
import type { RecordedBody } from './interaction-store.ts';
import { type JsonState, toJsonBody, toStoredBody } from './stored-body.ts';
import { StreamedAnswer } from './streamed-answer.ts';

/** Levels that an answer adds around a value of an event: the name of a called function is at depth seven. */
const OWN_DEPTH = 7;
/** JSON up to this size is parsed at its end, which costs less than scanning it. */
const PARSED_BYTES = 64 * 1024;
/** White space before a body, in bytes. */
const MAX_SPACE_BYTES = 4096;

/** Options of {@link AnswerCapture}. */
export interface AnswerCaptureOptions {
  /** Path of the request. */
  readonly path: string;
  /** Whether it is labeled as an event stream. The label decides only if the first bytes do not. */
  readonly isLabeledEvents: boolean;
  /** Recorded bytes. */
  readonly limit: number;
  readonly budget: MemoryBudget;
  /** Called once, when the body is complete. */
  readonly onEnd: () => void;
}

/**
 * Captures an answer while it is proxied, and reads its fields, of whatever length it is. Its bytes decide what it is: JSON
 * is stored unchanged up to the limit; a stream of events or of JSON in lines becomes the answer that the official client
 * assembles from it, as far as it has arrived; a stream of something else is stored as text.
 */
export class AnswerCapture implements BodySink {
  readonly fields = new AnswerFields();
  readonly #options: AnswerCaptureOptions;
  /** First bytes, until they show what the body is. */
  #start: BodyStart | undefined = new BodyStart();
  /** The body, until it is known to be the stream of an API. */
  #text: BoundedBuffer | undefined;
  /** JSON that is still small. */
  #isSmall = false;
  #json: JsonState = { isComplete: false, maxDepth: 0 };
  #scan: AnswerScan | undefined = undefined;
  #stream: StreamedAnswer | undefined = undefined;
  #decoder: EventStreamDecoder | LineDecoder | undefined = undefined;
  #isTruncated = false;
  #isReleased = false;

  constructor(options: AnswerCaptureOptions) {
    this.#options = options;
    this.#text = new BoundedBuffer(options.limit, options.budget);
  }

  write(chunk: Buffer): boolean {
    if (this.#isReleased) return false;
    // The chunk is valid only until this returns.
    const kind = this.#start?.push(Buffer.from(chunk), MAX_SPACE_BYTES);
    if (this.#start === undefined) this.#add(chunk);
    else if (kind !== undefined) this.#begin(this.#start, kind);
    return true;
  }

  end(isTruncated = false): void {
    if (this.#start) this.#begin(this.#start, 'json');
    if (this.#isSmall) this.#parse();
    if (this.#decoder instanceof LineDecoder) this.#decoder.end();
    this.#isTruncated ||= isTruncated;
    this.#options.onEnd();
  }

  /** Returns the body and releases its memory. */
  take(): RecordedBody {
    const recorded = this.#recorded();
    this.release();
    return recorded;
  }

  /** Releases the memory and ignores further chunks. */
  release(): void {
    this.#isReleased = true;
    this.#start = undefined;
    this.#releaseText();
    this.#stream?.release();
    this.#stream = undefined;
    this.#decoder = undefined;
    this.#scan = undefined;
  }

  /** What is not a stream of events may be JSON; text is none from its first byte on. */
  #begin(start: BodyStart, kind: 'events' | 'json' | 'other'): void {
    this.#start = undefined;
    if (kind === 'events' || (kind === 'other' && this.#options.isLabeledEvents)) {
      this.#decoder = new EventStreamDecoder(this.#openStream(), Number.MAX_SAFE_INTEGER, MAX_LINE_BYTES);
    } else this.#isSmall = true;
    this.#add(start.take());
  }

  #openStream(): StreamedAnswer {
    const { path, limit, budget } = this.#options;
    // The text of a stream is not needed once its answer is assembled.
    const onKnown = () => this.#releaseText();
    this.#stream = new StreamedAnswer({ fields: this.fields, path, limit, budget, onKnown });
    return this.#stream;
  }

  #add(chunk: Buffer): void {
    const text = this.#text;
    if (this.#isSmall && (text?.isTruncated || (text?.length ?? 0) + chunk.length > PARSED_BYTES)) this.#scanStored();
    text?.push(chunk);
    if (this.#scan) this.#scanChunk(this.#scan, chunk);
    else this.#decoder?.write(chunk);
  }

  /** Reads small JSON that is complete. */
  #parse(): void {
    const text = this.#text?.bytes?.toString() ?? '';
    const value = tryParseJson(text);
    if (!isJsonObject(value)) return this.#scanStored();
    this.fields.read(ALL_FIELDS, value);
    this.#json = { isComplete: true, maxDepth: skipContainer(text, skipSpace(text, 0)).depth };
  }

  /** Scans what is stored, and from now on what follows. */
  #scanStored(): void {
    this.#isSmall = false;
    this.#scan = new AnswerScan(ALL_FIELDS, this.fields);
    this.#json = this.#scan.scanner;
    const stored = this.#text?.bytes;
    if (stored) this.#scanChunk(this.#scan, stored);
  }

  #scanChunk(scan: AnswerScan, chunk: Buffer): void {
    const before = scan.scanner.offset;
    scan.scanner.write(chunk);
    if (!scan.scanner.isInvalid) return;
    this.#scan = undefined;
    // After an object comes something else: these are lines.
    if (scan.objectBytes !== undefined) this.#readLines(chunk, scan.scanner.offset - before);
  }

  /** Reads what is stored, and what follows, as lines. `rest`: where the second one begins in the chunk. */
  #readLines(chunk: Buffer, rest: number): void {
    this.#decoder = new LineDecoder(this.#openStream());
    const text = this.#text;
    const stored = text?.isTruncated ? chunk.subarray(rest) : text?.bytes;
    if (stored) this.#decoder.write(stored);
  }

  #recorded(): RecordedBody {
    const answer = this.#stream?.take();
    if (answer !== undefined && this.#stream) {
      const { values } = this.#stream;
      const { body, isTruncated } = toJsonBody(answer, values.maxDepth + OWN_DEPTH, this.#options.limit);
      return { body, truncated: this.#isTruncated || isTruncated || values.isTruncated };
    }
    const truncated = this.#isTruncated || this.#text?.isTruncated === true;
    return { body: toStoredBody(this.#text?.take(), truncated, this.#json), truncated };
  }

  #releaseText(): void {
    this.#text?.take();
    this.#text = undefined;
  }
}

/** Longest line of a stream that is not data of an event, in bytes. */
const MAX_LINE_BYTES = 1024 * 1024;

const LF = 10;
/** Ends an event and begins the data of the next one. */
const NEXT_EVENT = Buffer.from('\n\ndata:');

/** Decodes a stream of JSON values in lines (NDJSON), in chunks that may end anywhere: each line is the data of an event. */
export class LineDecoder {
  readonly #decoder: EventStreamDecoder;

  constructor(sink: EventSink) {
    this.#decoder = new EventStreamDecoder(sink, Number.MAX_SAFE_INTEGER, MAX_LINE_BYTES);
    this.end();
  }

  write(chunk: Buffer): void {
    let from = 0;
    for (let end = chunk.indexOf(LF); end !== -1; end = chunk.indexOf(LF, from)) {
      this.#decoder.write(chunk.subarray(from, end));
      this.end();
      from = end + 1;
    }
    this.#decoder.write(chunk.subarray(from));
  }

  /** Ends a line: the last one of a stream needs no line feed. */
  end(): void {
    this.#decoder.write(NEXT_EVENT);
  }
}

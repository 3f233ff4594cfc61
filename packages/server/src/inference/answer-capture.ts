import { isJsonObject, tryParseJson } from '@sluice/protocol/json/parse';
import { EventStreamDecoder } from '@sluice/protocol/mcp/event-stream';
import { AnswerFields } from './answer-fields.ts';
import { AnswerScan, depthOf } from './answer-scan.ts';
import { ALL_FIELDS } from './apis/apis.ts';
import { BoundedBuffer, type MemoryBudget } from './bounded-memory.ts';
import type { BodySink } from './decoder.ts';
import type { StoredBody } from './interaction-store.ts';
import { LineDecoder } from './line-decoder.ts';
import { type JsonState, toJsonBody, toStoredBody } from './stored-body.ts';
import { StreamedAnswer } from './streamed-answer.ts';

/** Levels that an answer adds around a value of an event: the name of a called function is at depth seven. */
const OWN_DEPTH = 7;
/** JSON up to this size is parsed at its end, which costs less than scanning it. */
const PARSED_BYTES = 64 * 1024;
/** Longest line of an event stream that is not data, in bytes. */
const MAX_LINE_BYTES = 1024 * 1024;

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
  #head: Buffer | undefined = Buffer.alloc(0);
  /** The body, until it is known to be the stream of an API. */
  #text: BoundedBuffer | undefined;
  /** JSON that is still small. */
  #isSmall = false;
  #json: JsonState = { isComplete: false, maxDepth: 0 };
  #scan: AnswerScan | undefined = undefined;
  #stream: StreamedAnswer | undefined = undefined;
  #decoder: EventStreamDecoder | LineDecoder | undefined = undefined;
  #body: StoredBody | undefined = undefined;
  #isTruncated = false;
  #isAssembled = false;
  #hasEnded = false;

  constructor(options: AnswerCaptureOptions) {
    this.#options = options;
    this.#text = new BoundedBuffer(options.limit, options.budget);
  }

  /** Whether bytes or values were discarded. Of a complete body, the assembled answer decides. */
  get isTruncated(): boolean {
    if (this.#hasEnded) this.#assemble();
    return this.#isTruncated;
  }

  write(chunk: Buffer): boolean {
    if (this.#isAssembled) return false;
    if (this.#head === undefined) this.#add(chunk);
    else this.#begin(chunk, false);
    return true;
  }

  end(isTruncated = false): void {
    if (this.#hasEnded) return;
    if (this.#head !== undefined) this.#begin(Buffer.alloc(0), true);
    if (this.#isSmall) this.#parse();
    if (this.#decoder instanceof LineDecoder) this.#decoder.end();
    this.#isTruncated ||= isTruncated;
    this.#hasEnded = true;
    this.#options.onEnd();
  }

  /** Returns the body and releases its memory. */
  take(): StoredBody | undefined {
    this.#assemble();
    const body = this.#body;
    this.release();
    return body;
  }

  /** Releases the memory and ignores further chunks. */
  release(): void {
    this.#isAssembled = true;
    this.#body = undefined;
    this.#head = undefined;
    this.#releaseText();
    this.#stream?.release();
    this.#stream = undefined;
    this.#decoder = undefined;
    this.#scan = undefined;
  }

  /** Decides by the first bytes what the body is. */
  #begin(chunk: Buffer, isComplete: boolean): void {
    const head = this.#head?.length ? Buffer.concat([this.#head, chunk]) : chunk;
    const start = afterMark(head);
    const form = start === undefined ? undefined : formOf(head, start, this.#options.isLabeledEvents);
    if (form === undefined && !isComplete) {
      // The chunk is valid only until this returns.
      this.#head = Buffer.from(head);
      return;
    }
    this.#head = undefined;
    if (form === 'json') this.#isSmall = true;
    else if (form === 'events') {
      this.#decoder = new EventStreamDecoder(this.#openStream(), Number.MAX_SAFE_INTEGER, MAX_LINE_BYTES);
    }
    this.#add(form === 'json' ? head.subarray(start) : head);
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
    const bytes = this.#text?.bytes ?? Buffer.alloc(0);
    const value = tryParseJson(bytes.toString());
    if (!isJsonObject(value)) return this.#scanStored();
    this.fields.read(ALL_FIELDS, value);
    this.#json = { isComplete: true, maxDepth: depthOf(bytes) };
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

  #assemble(): void {
    if (this.#isAssembled) return;
    this.#isAssembled = true;
    const answer = this.#stream?.take();
    if (answer !== undefined && this.#stream) {
      const { body, isTruncated } = toJsonBody(answer, this.#stream.maxDepth + OWN_DEPTH, this.#options.limit);
      this.#body = body;
      this.#isTruncated ||= isTruncated || this.#stream.isTruncated;
      return;
    }
    this.#isTruncated ||= this.#text?.isTruncated ?? false;
    this.#body = toStoredBody(this.#text?.take(), this.#isTruncated, this.#json);
  }

  #releaseText(): void {
    this.#text?.take();
    this.#text = undefined;
  }
}

const MARK = Buffer.from([0xef, 0xbb, 0xbf]);

/** Position after a byte order mark, which parsers skip; undefined if more bytes decide. */
function afterMark(head: Buffer): number | undefined {
  const common = Math.min(head.length, MARK.length);
  if (head.compare(MARK, 0, common, 0, common) !== 0) return 0;
  return common === MARK.length ? common : undefined;
}

const JSON_STARTS = /^[[{"\-0-9tfn]/;
/** How a line of an event stream begins: with a field or a comment. */
const EVENT_STARTS = ['data:', 'event:', 'id:', 'retry:', ':'];
const DECIDING_BYTES = 6;
/** White space before a body. */
const MAX_SPACE_BYTES = 4096;

/** What the bytes from a position on are; undefined if more of them decide. */
function formOf(head: Buffer, start: number, isLabeledEvents: boolean): 'json' | 'events' | 'text' | undefined {
  let at = start;
  while (at < head.length && isSpace(head[at] ?? 0)) at++;
  const first = head.toString('latin1', at, at + DECIDING_BYTES);
  if (EVENT_STARTS.some((name) => first.startsWith(name))) return 'events';
  const isOpen = at - start <= MAX_SPACE_BYTES && EVENT_STARTS.some((name) => name.startsWith(first));
  if (isOpen) return undefined;
  if (JSON_STARTS.test(first)) return 'json';
  return isLabeledEvents ? 'events' : 'text';
}

function isSpace(byte: number): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

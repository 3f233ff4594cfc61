import { isUtf8 } from 'node:buffer';
import { type EventSink, EventStreamDecoder, type ServerSentEvent } from '@sluice/protocol/mcp/event-stream';
import { BoundedBuffer, type MemoryBudget } from './bounded-memory.ts';
import { CompletionAssembler } from './completion-assembler.ts';
import { CompletionFields } from './completion-fields.ts';
import type { DecodedSink } from './decoder.ts';
import type { StoredBody } from './interaction-store.ts';

/** Deeper bodies are stored as text: many JSON parsers fail on them. */
const MAX_JSON_DEPTH = 256;

/** Captures a body while it is proxied. */
interface BodyCapture extends DecodedSink {
  /** Whether bytes were discarded. */
  readonly isTruncated: boolean;
  /** Returns the body and releases its memory. */
  take(): StoredBody | undefined;
  /** Releases the memory and ignores further chunks. */
  release(): void;
}

/** Captures a body unchanged, up to a limit, and scans it as JSON. */
export class TextCapture implements BodyCapture {
  /** Scanner of the body. */
  readonly json = new CompletionFields();
  readonly #buffer: BoundedBuffer;
  readonly #budget: MemoryBudget;
  readonly #onEnd: () => void;
  #reserved = 0;
  #isTruncated = false;
  #isReleased = false;

  /** `onEnd` is called once, when the body is complete. */
  constructor(limit: number, budget: MemoryBudget, onEnd: () => void) {
    this.#buffer = new BoundedBuffer(limit);
    this.#budget = budget;
    this.#onEnd = onEnd;
  }

  get isTruncated(): boolean {
    return this.#isTruncated;
  }

  onDecoded(chunk: Buffer): boolean {
    if (this.#isTruncated || this.#isReleased) return false;
    if (!this.#budget.reserve(chunk.length)) {
      this.#isTruncated = true;
      return false;
    }
    this.#reserved += chunk.length;
    const stored = this.#buffer.push(chunk);
    this.#isTruncated = this.#buffer.isTruncated;
    this.json.write(stored === chunk.length ? chunk : chunk.subarray(0, stored));
    return !this.#isTruncated;
  }

  onDecodedEnd(isTruncated: boolean): void {
    this.#isTruncated ||= isTruncated;
    this.#onEnd();
  }

  take(): StoredBody | undefined {
    const bytes = this.#buffer.take();
    this.release();
    return toStoredBody(bytes, this.#isTruncated, this.json);
  }

  release(): void {
    this.#isReleased = true;
    this.#buffer.take();
    this.#budget.release(this.#reserved);
    this.#reserved = 0;
  }
}

/**
 * Captures an event stream event by event (decisions 4.8). If its events are the chunks of a chat completion, the body is
 * that completion as far as it has arrived; otherwise it is the text of the stream. A completion is truncated, too, if
 * parts of its chunks were dropped or its JSON exceeds the limit: then the body is the beginning of that JSON, as text.
 */
export class EventStreamCapture implements BodyCapture, EventSink {
  readonly completion: CompletionAssembler;
  readonly #limit: number;
  readonly #decoder: EventStreamDecoder;
  readonly #budget: MemoryBudget;
  readonly #onEnd: () => void;
  /** Text of the stream, until a completion has started. */
  #text: BoundedBuffer | undefined;
  /** Set if the events are not chunks of a completion. */
  #isOther = false;
  #availableBytes: number;
  #reserved = 0;
  #isTruncated = false;
  #body: StoredBody | undefined = undefined;
  #hasEnded = false;
  #isAssembled = false;

  /** Reads at most `limit` bytes. `onEnd` is called once, when the body is complete. */
  constructor(limit: number, budget: MemoryBudget, onEnd: () => void) {
    // Values cost about twice their JSON, so that a typical stream is stored up to the limit.
    this.completion = new CompletionAssembler(2 * limit);
    this.#limit = limit;
    this.#text = new BoundedBuffer(limit);
    this.#decoder = new EventStreamDecoder(this, 2 * limit);
    this.#availableBytes = limit;
    this.#budget = budget;
    this.#onEnd = onEnd;
  }

  /** Assembles the body of a complete stream, which decides it. */
  get isTruncated(): boolean {
    if (this.#hasEnded) this.#assemble();
    return this.#isTruncated;
  }

  onDecoded(chunk: Buffer): boolean {
    if (this.#isTruncated) return false;
    this.#isTruncated = chunk.length > this.#availableBytes;
    const accepted = this.#isTruncated ? chunk.subarray(0, this.#availableBytes) : chunk;
    if (!this.#budget.reserve(accepted.length)) {
      this.#isTruncated = true;
      return false;
    }
    this.#reserved += accepted.length;
    this.#availableBytes -= accepted.length;
    this.#text?.push(accepted);
    if (!this.#isOther) this.#decoder.write(accepted);
    return !this.#isTruncated;
  }

  onEvent({ data }: ServerSentEvent): void {
    if (data === '') return;
    if (!this.completion.add(data)) {
      this.#isOther = true;
      this.#decoder.stop();
    } else if (this.#text !== undefined && this.completion.hasStarted) {
      this.#text = undefined;
    }
  }

  onEventError(): void {
    this.#isTruncated = true;
  }

  onDecodedEnd(isTruncated: boolean): void {
    this.#isTruncated ||= isTruncated;
    this.#hasEnded = true;
    this.#onEnd();
  }

  take(): StoredBody | undefined {
    this.#assemble();
    const body = this.#body;
    this.release();
    return body;
  }

  release(): void {
    this.#isTruncated = true;
    this.#isAssembled = true;
    this.#body = undefined;
    this.#text = undefined;
    this.#decoder.stop();
    this.#budget.release(this.#reserved);
    this.#reserved = 0;
  }

  #assemble(): void {
    if (this.#isAssembled) return;
    this.#isAssembled = true;
    if (this.completion.hasStarted) {
      const { body, isTruncated } = toJsonBody(this.completion.take(), this.completion.maxDepth, this.#limit);
      this.#body = body;
      this.#isTruncated ||= isTruncated || this.completion.isTruncated;
    } else {
      this.#body = toStoredBody(this.#text?.take(), this.#isTruncated, new CompletionFields());
    }
  }
}

/**
 * Returns the body for its stored bytes; a truncated one ends at the last whole character. Invalid UTF-8 becomes
 * replacement characters (decisions 2.9: parsed JSON, else a string, else null).
 */
export function toStoredBody(
  bytes: Buffer | undefined,
  isTruncated: boolean,
  json: CompletionFields,
): StoredBody | undefined {
  if (bytes === undefined) return undefined;
  if (isTruncated) return { isJson: false, bytes: toUtf8(bytes.subarray(0, wholeCharacterBytes(bytes))) };
  const isJson = json.isComplete && json.maxDepth <= MAX_JSON_DEPTH;
  return { isJson, bytes: toUtf8(isJson ? bytes.subarray(json.bomBytes) : bytes) };
}

/**
 * Returns the body for a value, as JSON. If that exceeds `limit` bytes, the body is its beginning, as text, like all
 * truncated bodies (decisions 4.8). `maxDepth`: upper bound of the depth of the value.
 */
function toJsonBody(value: object, maxDepth: number, limit: number): { body: StoredBody; isTruncated: boolean } {
  const text = JSON.stringify(value);
  const size = Buffer.byteLength(text);
  // `Buffer.from` would slice small buffers from a shared one. `write` writes whole characters only.
  const bytes = Buffer.allocUnsafeSlow(Math.min(size, limit));
  const written = bytes.write(text);
  const isTruncated = size > limit;
  const isJson = !isTruncated && maxDepth <= MAX_JSON_DEPTH;
  return { body: { isJson, bytes: bytes.subarray(0, written) }, isTruncated };
}

function toUtf8(bytes: Buffer): Buffer {
  if (isUtf8(bytes)) return bytes;
  const text = bytes.toString();
  const replaced = Buffer.allocUnsafeSlow(Buffer.byteLength(text));
  replaced.write(text);
  return replaced;
}

/** Number of bytes without an incomplete character at the end. */
function wholeCharacterBytes(bytes: Buffer): number {
  let at = bytes.length;
  while (at > 0 && bytes.length - at < 3 && ((bytes[at - 1] ?? 0) & 0xc0) === 0x80) at--;
  const lead = bytes[at - 1] ?? 0;
  const length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
  return at > 0 && at - 1 + length > bytes.length ? at - 1 : bytes.length;
}

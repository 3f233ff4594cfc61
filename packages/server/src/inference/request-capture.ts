import { BoundedBuffer, type MemoryBudget } from './bounded-memory.ts';
import type { BodySink } from './decoder.ts';
import type { RecordedBody, StoredBody } from './interaction-store.ts';
import { RequestFields } from './request-fields.ts';
import { OUTLINE_BYTES, RequestOutline } from './request-outline.ts';
import { toJsonBody, toStoredBody } from './stored-body.ts';

/** Requests from this size on are outlined, for the case that they exceed the limit. */
const OUTLINED_BYTES = 64 * 1024;
/** A list of messages. */
const OUTLINE_DEPTH = 2;

/** Options of {@link RequestCapture}. */
interface RequestCaptureOptions {
  /** The member with the conversation of the API that the path is of. */
  readonly conversation: string | undefined;
  /** Recorded bytes. */
  readonly limit: number;
  readonly budget: MemoryBudget;
  /** Called once, when the body is complete. */
  readonly onEnd: () => void;
}

/** Captures a request unchanged, up to a limit; of a larger one also the text of its last messages. */
export class RequestCapture implements BodySink {
  readonly fields: RequestFields;
  readonly #options: RequestCaptureOptions;
  readonly #buffer: BoundedBuffer;
  #outline: RequestOutline | undefined = undefined;
  #isReleased = false;

  constructor(options: RequestCaptureOptions) {
    this.#options = options;
    this.fields = new RequestFields(options.conversation);
    this.#buffer = new BoundedBuffer(options.limit, options.budget);
  }

  /** Whether bytes were discarded. */
  get isTruncated(): boolean {
    return this.#buffer.isTruncated;
  }

  write(chunk: Buffer): boolean {
    if (this.#isReleased) return false;
    this.fields.write(chunk);
    this.#outlineFrom(chunk);
    this.#buffer.push(chunk);
    return true;
  }

  end(isTruncated = false): void {
    this.#buffer.isTruncated ||= isTruncated;
    this.#options.onEnd();
  }

  /** Returns the body and releases its memory. */
  take(): RecordedBody {
    const { isTruncated } = this;
    const bytes = this.#buffer.take();
    const outline = isTruncated ? this.#outlineBody() : undefined;
    this.release();
    const { bomBytes } = this.fields;
    const isJson = this.fields.isComplete && !isTruncated;
    const body = toStoredBody(isJson ? bytes?.subarray(bomBytes) : bytes, isTruncated, this.fields);
    return { truncated: isTruncated, body, ...(outline && { outline }) };
  }

  /** Releases the memory and ignores further chunks. */
  release(): void {
    this.#isReleased = true;
    this.#buffer.take();
    if (this.#outline !== undefined) this.#options.budget.release(OUTLINE_BYTES);
    this.#outline = undefined;
  }

  /** Scans what is stored as soon as it is large, and the chunk, which is not stored yet. */
  #outlineFrom(chunk: Buffer): void {
    const { bomBytes } = this.fields;
    let bytes = chunk;
    if (this.#outline === undefined) {
      const { limit, budget } = this.#options;
      const isLarge = this.#buffer.length + chunk.length > Math.min(OUTLINED_BYTES, limit);
      if (!isLarge || this.isTruncated || !budget.reserve(OUTLINE_BYTES)) return;
      this.#outline = new RequestOutline();
      const stored = this.#buffer.bytes;
      if (stored) this.#outline.write(stored.subarray(bomBytes));
      // The byte order mark may end in this chunk.
      bytes = chunk.subarray(Math.max(0, bomBytes - this.#buffer.length));
    }
    this.#outline.write(bytes);
  }

  #outlineBody(): StoredBody | undefined {
    const messages = this.#outline?.take() ?? [];
    return messages.length === 0 ? undefined : toJsonBody(messages, OUTLINE_DEPTH, Number.POSITIVE_INFINITY).body;
  }
}

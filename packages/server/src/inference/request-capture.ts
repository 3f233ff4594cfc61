import { BoundedBuffer, type MemoryBudget } from './bounded-memory.ts';
import type { DecodedSink } from './decoder.ts';
import type { RecordedBody, StoredBody } from './interaction-store.ts';
import { RequestFields } from './request-fields.ts';
import { OUTLINE_BYTES, RequestOutline } from './request-outline.ts';
import { toStoredBody } from './stored-body.ts';

/** Requests from this size on are outlined, for the case that they exceed the limit. */
const OUTLINED_BYTES = 64 * 1024;

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
export class RequestCapture implements DecodedSink {
  readonly fields: RequestFields;
  readonly #options: RequestCaptureOptions;
  readonly #buffer: BoundedBuffer;
  #outline: RequestOutline | undefined = undefined;
  #hasOutline = false;
  #reserved = 0;
  #isTruncated = false;
  #isReleased = false;

  constructor(options: RequestCaptureOptions) {
    this.#options = options;
    this.fields = new RequestFields(options.conversation);
    this.#buffer = new BoundedBuffer(options.limit);
  }

  /** Whether bytes were discarded. */
  get isTruncated(): boolean {
    return this.#isTruncated;
  }

  onDecoded(chunk: Buffer): boolean {
    if (this.#isReleased) return false;
    this.fields.write(chunk);
    this.#outlineFrom(chunk);
    if (!this.#isTruncated) this.#store(chunk);
    return true;
  }

  onDecodedEnd(isTruncated: boolean): void {
    this.#isTruncated ||= isTruncated;
    this.#options.onEnd();
  }

  /** Returns the body and releases its memory. */
  take(): RecordedBody {
    const bytes = this.#buffer.take();
    const outline = this.#isTruncated ? this.#outlineBody() : undefined;
    this.release();
    const { bomBytes } = this.fields;
    const isJson = this.fields.isComplete && !this.#isTruncated;
    const body = toStoredBody(isJson ? bytes?.subarray(bomBytes) : bytes, this.#isTruncated, this.fields);
    return { truncated: this.#isTruncated, body, ...(outline && { outline }) };
  }

  /** Releases the memory and ignores further chunks. */
  release(): void {
    this.#isReleased = true;
    this.#buffer.take();
    this.#outline = undefined;
    this.#options.budget.release(this.#reserved);
    this.#reserved = 0;
  }

  #store(chunk: Buffer): void {
    if (!this.#reserve(chunk.length)) {
      this.#isTruncated = true;
      return;
    }
    this.#buffer.push(chunk);
    this.#isTruncated = this.#buffer.isTruncated;
  }

  /** Scans what is stored as soon as it is large, and the chunk, which is not stored yet. */
  #outlineFrom(chunk: Buffer): void {
    const { bomBytes } = this.fields;
    let bytes = chunk;
    if (this.#outline === undefined) {
      const isLarge = this.#buffer.length + chunk.length > Math.min(OUTLINED_BYTES, this.#options.limit);
      if (this.#hasOutline || !isLarge || this.#isTruncated || !this.#reserve(OUTLINE_BYTES)) return;
      this.#hasOutline = true;
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
    if (messages.length === 0) return undefined;
    const text = JSON.stringify(messages);
    const bytes = Buffer.allocUnsafeSlow(Buffer.byteLength(text));
    bytes.write(text);
    return { isJson: true, bytes };
  }

  #reserve(bytes: number): boolean {
    if (!this.#options.budget.reserve(bytes)) return false;
    this.#reserved += bytes;
    return true;
  }
}

import type { EventSink } from '@sluice/protocol/mcp/event-stream';
import { BoundedBuffer } from './bounded-memory.ts';

/** Longer lines are passed on as they arrive. */
const MAX_LINE_BYTES = 64 * 1024;
const LF = 10;

/** Decodes a stream of JSON values in lines (NDJSON), in chunks that may end anywhere. */
export class LineDecoder {
  readonly #sink: Required<EventSink>;
  #partial = new BoundedBuffer(MAX_LINE_BYTES);
  #isLarge = false;

  constructor(sink: Required<EventSink>) {
    this.#sink = sink;
  }

  write(chunk: Buffer): void {
    let from = 0;
    for (let end = chunk.indexOf(LF); end !== -1; end = chunk.indexOf(LF, from)) {
      this.#add(chunk.subarray(from, end));
      this.#end();
      from = end + 1;
    }
    if (from < chunk.length) this.#add(chunk.subarray(from));
  }

  /** The stream is complete: its last line needs no line feed. */
  end(): void {
    this.#end();
  }

  #add(bytes: Buffer): void {
    if (!this.#isLarge && this.#partial.length + bytes.length > MAX_LINE_BYTES) {
      this.#isLarge = true;
      const begin = this.#partial.bytes;
      if (begin) this.#sink.onLargeData(begin);
    }
    if (this.#isLarge) this.#sink.onLargeData(bytes);
    else this.#partial.push(bytes);
  }

  #end(): void {
    const line = this.#partial.bytes;
    const isLarge = this.#isLarge;
    this.#isLarge = false;
    this.#partial = new BoundedBuffer(MAX_LINE_BYTES);
    if (isLarge) this.#sink.onLargeEvent({});
    else if (line) this.#sink.onEvent({ data: line.toString() });
  }
}

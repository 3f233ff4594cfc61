import { type EventSink, EventStreamDecoder } from '@sluice/protocol/mcp/event-stream';

/** Longest line of a stream that is not data of an event, in bytes. */
export const MAX_LINE_BYTES = 1024 * 1024;

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

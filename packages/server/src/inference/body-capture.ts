import { isUtf8 } from 'node:buffer';
import { type EventSink, EventStreamDecoder, type ServerSentEvent } from '@sluice/protocol/mcp/event-stream';
import { CompletionStream } from './completion-assembler.ts';
import type { DecodedSink } from './decoder.ts';
import { JsonScanner } from './json-scanner.ts';
import type { MemoryBudget } from './recorder.ts';

/**
 * Keeps the first bytes of a body, up to a limit, as a copy of its own: a piece of a body is a view of a larger buffer of
 * its socket, which would stay in memory with it.
 */
export class BoundedBuffer {
  readonly #limit: number;
  #held: Buffer | undefined = undefined;
  /** Bytes kept so far. */
  length = 0;
  /** Whether there was more than the limit. */
  cut = false;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Keeps as much of the piece as there is room for, and returns how much that was. */
  push(piece: Buffer): number {
    const taken = Math.min(piece.length, this.#limit - this.length);
    if (taken < piece.length) this.cut = true;
    if (taken === 0) return 0;
    const length = this.length + taken;
    if (this.#held === undefined || this.#held.length < length) {
      // Most bodies come in one piece and are not grown; those that are grow by doubling.
      const grown = Buffer.allocUnsafeSlow(this.#held === undefined ? taken : Math.min(length * 2, this.#limit));
      this.#held?.copy(grown, 0, 0, this.length);
      this.#held = grown;
    }
    piece.copy(this.#held, this.length, 0, taken);
    this.length = length;
    return taken;
  }

  /** All that was kept, in a buffer of exactly that size; undefined for nothing. Nothing may be pushed after this. */
  take(): Buffer | undefined {
    const held = this.#held;
    this.#held = undefined;
    if (held === undefined || held.length === this.length) return held;
    const exact = Buffer.allocUnsafeSlow(this.length);
    held.copy(exact, 0, 0, this.length);
    return exact;
  }
}

/** A body as it is kept: its bytes, in a buffer of their own and not as a view of a larger one. They are UTF-8. */
export interface StoredBody {
  /** The bytes are JSON; else they are text. */
  readonly isJson: boolean;
  readonly bytes: Buffer;
}

/** Bodies nested deeper are kept as text: many readers of JSON fail on them. */
const DEEPEST = 256;

/**
 * Makes a body of its first bytes: of all of them, or, where it was cut, of those up to the last whole character. Bytes
 * that are no UTF-8 become replacement characters (decisions 2.9: parsed JSON, else a string, else null).
 */
export function storedBody(bytes: Buffer | undefined, cut: boolean, outline: JsonScanner): StoredBody | undefined {
  if (bytes === undefined) return undefined;
  if (cut) return { isJson: false, bytes: asUtf8(bytes.subarray(0, wholeCharacters(bytes))) };
  const isJson = outline.complete && outline.deepest <= DEEPEST;
  return { isJson, bytes: asUtf8(isJson ? bytes.subarray(outline.markBytes) : bytes) };
}

/**
 * The body that a value is, as JSON. Where that has more than `limit` bytes, the body is the beginning of it, as a text,
 * as it is of all bodies that are cut (decisions 4.8). `deepest`: how deeply the value is nested, at most.
 */
export function jsonBody(value: object, deepest: number, limit: number): { body: StoredBody; cut: boolean } {
  const text = JSON.stringify(value);
  const size = Buffer.byteLength(text);
  // `Buffer.from` would cut small ones from a shared buffer. Characters that are not all in it are not written.
  const bytes = Buffer.allocUnsafeSlow(Math.min(size, limit));
  const written = bytes.write(text);
  const cut = size > limit;
  return { body: { isJson: !cut && deepest <= DEEPEST, bytes: bytes.subarray(0, written) }, cut };
}

function asUtf8(bytes: Buffer): Buffer {
  if (isUtf8(bytes)) return bytes;
  const text = bytes.toString();
  const replaced = Buffer.allocUnsafeSlow(Buffer.byteLength(text));
  replaced.write(text);
  return replaced;
}

/** How many bytes there are without a character at the end that is not all there. */
function wholeCharacters(bytes: Buffer): number {
  let at = bytes.length;
  while (at > 0 && bytes.length - at < 3 && ((bytes[at - 1] ?? 0) & 0xc0) === 0x80) at--;
  const lead = bytes[at - 1] ?? 0;
  const length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
  return at > 0 && at - 1 + length > bytes.length ? at - 1 : bytes.length;
}

/** A body while it passes. */
export interface PassingBody extends DecodedSink {
  /** Whether there was more of it than is kept. */
  readonly cut: boolean;
  /** The body. Nothing is kept here after this. */
  take(): StoredBody | undefined;
  /** Gives up what is kept, and takes no more. */
  release(): void;
}

/** A body that is kept as it is, up to a limit, and looked at as it comes. */
export class RecordedText implements PassingBody {
  /** What it says, as JSON. */
  readonly outline = new JsonScanner();
  readonly #kept: BoundedBuffer;
  readonly #budget: MemoryBudget;
  readonly #onEnd: () => void;
  #taken = 0;
  #cut = false;
  #released = false;

  /** `onEnd` is called once all of the body has come. */
  constructor(limit: number, budget: MemoryBudget, onEnd: () => void) {
    this.#kept = new BoundedBuffer(limit);
    this.#budget = budget;
    this.#onEnd = onEnd;
  }

  get cut(): boolean {
    return this.#cut;
  }

  onDecoded(piece: Buffer): boolean {
    if (this.#cut || this.#released) return false;
    if (!this.#budget.take(piece.length)) {
      this.#cut = true;
      return false;
    }
    this.#taken += piece.length;
    const kept = this.#kept.push(piece);
    this.#cut = this.#kept.cut;
    this.outline.write(kept === piece.length ? piece : piece.subarray(0, kept));
    return !this.#cut;
  }

  onDecodedEnd(cut: boolean): void {
    this.#cut ||= cut;
    this.#onEnd();
  }

  take(): StoredBody | undefined {
    const bytes = this.#kept.take();
    this.release();
    return storedBody(bytes, this.#cut, this.outline);
  }

  release(): void {
    this.#released = true;
    this.#kept.take();
    this.#budget.give(this.#taken);
    this.#taken = 0;
  }
}

/**
 * An event stream while it passes, read event by event (decisions 4.8). Where its events are the chunks of a chat
 * completion, the body is that completion, as far as it came; else it is the text of the stream. A completion counts as
 * cut, too, when parts of its chunks were left out, or when it takes more as JSON than is kept of a body: then the body is
 * the beginning of that JSON, as a text.
 */
export class RecordedEvents implements PassingBody, EventSink {
  readonly completion: CompletionStream;
  readonly #limit: number;
  readonly #decoder: EventStreamDecoder;
  readonly #budget: MemoryBudget;
  readonly #onEnd: () => void;
  /** The stream's text, until it is known that it is not needed. */
  #text: BoundedBuffer | undefined;
  #isOther = false;
  #room: number;
  #taken = 0;
  #cut = false;
  #body: StoredBody | undefined = undefined;
  #ended = false;
  #assembled = false;

  /** Reads `limit` bytes at most. `onEnd` is called once all of the body has come. */
  constructor(limit: number, budget: MemoryBudget, onEnd: () => void) {
    // Values cost about twice what they take as JSON: those of a usual stream are kept up to the limit.
    this.completion = new CompletionStream(2 * limit);
    this.#limit = limit;
    this.#text = new BoundedBuffer(limit);
    this.#decoder = new EventStreamDecoder(this, 2 * limit);
    this.#room = limit;
    this.#budget = budget;
    this.#onEnd = onEnd;
  }

  /** Once all has come, whoever asks first has the body made: only then it is known. */
  get cut(): boolean {
    if (this.#ended) this.#assemble();
    return this.#cut;
  }

  onDecoded(chunk: Buffer): boolean {
    if (this.#cut) return false;
    this.#cut = chunk.length > this.#room;
    const piece = this.#cut ? chunk.subarray(0, this.#room) : chunk;
    if (!this.#budget.take(piece.length)) {
      this.#cut = true;
      return false;
    }
    this.#taken += piece.length;
    this.#room -= piece.length;
    this.#text?.push(piece);
    if (!this.#isOther) this.#decoder.write(piece);
    return !this.#cut;
  }

  onEvent({ data }: ServerSentEvent): void {
    if (data === '') return;
    if (!this.completion.add(data)) {
      this.#isOther = true;
      this.#decoder.stop();
    } else if (this.#text !== undefined && this.completion.begun) {
      this.#text = undefined;
    }
  }

  onEventError(): void {
    this.#cut = true;
  }

  onDecodedEnd(cut: boolean): void {
    this.#cut ||= cut;
    this.#ended = true;
    this.#onEnd();
  }

  take(): StoredBody | undefined {
    this.#assemble();
    const body = this.#body;
    this.release();
    return body;
  }

  #assemble(): void {
    if (this.#assembled) return;
    this.#assembled = true;
    if (this.completion.begun) {
      const { body, cut } = jsonBody(this.completion.take(), this.completion.deepest, this.#limit);
      this.#body = body;
      this.#cut ||= cut || this.completion.cut;
    } else {
      this.#body = storedBody(this.#text?.take(), this.#cut, new JsonScanner());
    }
  }

  release(): void {
    this.#cut = true;
    this.#assembled = true;
    this.#body = undefined;
    this.#text = undefined;
    this.#decoder.stop();
    this.#budget.give(this.#taken);
    this.#taken = 0;
  }
}

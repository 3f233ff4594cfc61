import { type EventSink, EventStreamDecoder, type ServerSentEvent } from '@sluice/protocol/mcp/event-stream';
import { CompletionStream } from './completion-stream.ts';
import { JsonOutline } from './json-outline.ts';
import { KeptBytes } from './kept-bytes.ts';
import type { PassingBody } from './recorded-text.ts';
import { jsonBody, type StoredBody, storedBody } from './stored-body.ts';
import type { TeeBudget } from './tee-budget.ts';

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
  readonly #budget: TeeBudget;
  readonly #onEnd: () => void;
  /** The stream's text, until it is known that it is not needed. */
  #text: KeptBytes | undefined;
  #isOther = false;
  #room: number;
  #taken = 0;
  #cut = false;
  #body: StoredBody | undefined = undefined;
  #ended = false;
  #assembled = false;

  /** Reads `limit` bytes at most. `onEnd` is called once all of the body has come. */
  constructor(limit: number, budget: TeeBudget, onEnd: () => void) {
    // Values cost about twice what they take as JSON: those of a usual stream are kept up to the limit.
    this.completion = new CompletionStream(2 * limit);
    this.#limit = limit;
    this.#text = new KeptBytes(limit);
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
      this.#body = storedBody(this.#text?.take(), this.#cut, new JsonOutline());
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

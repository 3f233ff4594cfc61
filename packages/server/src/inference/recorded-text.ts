import type { DecodedSink } from './decoded-body.ts';
import { JsonOutline } from './json-outline.ts';
import { KeptBytes } from './kept-bytes.ts';
import { type StoredBody, storedBody } from './stored-body.ts';
import type { TeeBudget } from './tee-budget.ts';

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
  readonly outline = new JsonOutline();
  readonly #kept: KeptBytes;
  readonly #budget: TeeBudget;
  readonly #onEnd: () => void;
  #taken = 0;
  #cut = false;
  #released = false;

  /** `onEnd` is called once all of the body has come. */
  constructor(limit: number, budget: TeeBudget, onEnd: () => void) {
    this.#kept = new KeptBytes(limit);
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

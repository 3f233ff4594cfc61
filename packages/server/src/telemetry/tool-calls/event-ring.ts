import type { ToolCallRecord } from './tool-call-record.ts';

/** The latest records, each with the number that it came as; older ones are gone. */
export class EventRing {
  readonly capacity: number;
  readonly #slots: (ToolCallRecord | undefined)[];
  #end = 0;

  constructor(capacity: number) {
    this.capacity = capacity;
    this.#slots = new Array<ToolCallRecord | undefined>(capacity).fill(undefined);
  }

  /** The number that the next record gets. */
  get end(): number {
    return this.#end;
  }

  add(record: ToolCallRecord): void {
    this.#slots[this.#end % this.capacity] = record;
    this.#end++;
  }

  /** The record of a number; undefined when it is gone or has not come yet. */
  at(number: number): ToolCallRecord | undefined {
    if (number < this.#end - this.capacity || number >= this.#end) return undefined;
    return this.#slots[number % this.capacity];
  }

  /** All that are there, newest first. */
  *newestFirst(): Generator<ToolCallRecord> {
    for (let number = this.#end - 1; ; number--) {
      const record = this.at(number);
      if (!record) return;
      yield record;
    }
  }
}

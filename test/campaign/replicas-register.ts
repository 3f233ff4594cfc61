/** What a client knows of a write. */
export type WriteOutcome = 'acknowledged' | 'refused' | 'unknown';

/** One write of a key: `text` is the value, undefined if it removes the key. */
interface Write {
  readonly text: string | undefined;
  outcome: WriteOutcome;
}

/**
 * The history of one key that one client writes, one write after the other, with different values: a linearizable read returns the
 * value of the last write that was acknowledged before it, or of a later one. After a write of which the outcome is unknown the
 * key is not written again, since that may take effect at any later time.
 */
export class Register {
  readonly name: string;
  readonly #writes: Write[] = [{ text: undefined, outcome: 'acknowledged' }];
  #acknowledged = 0;
  /** The earliest write that the latest of the reads can have returned. */
  #seen = 0;

  constructor(name: string) {
    this.name = name;
  }

  /** The value as its writer knows it. */
  get text(): string | undefined {
    return this.#writes[this.#acknowledged]?.text;
  }

  /** Number of a read that begins now, for {@link check}. */
  get floor(): number {
    return Math.max(this.#acknowledged, this.#seen);
  }

  /** Whether nobody writes it anymore. */
  get isRetired(): boolean {
    return this.#writes.at(-1)?.outcome === 'unknown';
  }

  /** Begins a write. */
  write(text: string | undefined): void {
    this.#writes.push({ text, outcome: 'unknown' });
  }

  /** Ends the write; returns what is wrong. */
  end(outcome: WriteOutcome): string[] {
    const number = this.#writes.length - 1;
    const write = this.#writes[number];
    if (!write) throw new Error('no write has begun');
    write.outcome = outcome;
    if (outcome === 'acknowledged') this.#acknowledged = number;
    const isVisible = outcome === 'refused' && this.#seen >= number;
    return isVisible ? [`${this.name}: a read returned "${write.text}", which was refused`] : [];
  }

  /** Checks what a read has found that began at this `floor`. `isStale`: the response said that it may be out of date. */
  check(found: string | undefined, floor: number, isStale = false): string[] {
    const number = this.#writes.findIndex(
      ({ text, outcome }, at) => text === found && outcome !== 'refused' && (isStale || at >= floor),
    );
    if (number === -1) {
      const expected = this.#writes.slice(floor).map(({ text, outcome }) => `${text ?? 'nothing'} (${outcome})`);
      return [`${this.name}: a read returned ${found ?? 'nothing'} after ${expected.slice(0, 4).join(', ')}`];
    }
    if (!isStale) this.#seen = Math.max(this.#seen, number);
    return [];
  }
}

import type { SessionState } from '../kept-sessions.ts';
import type { Kept } from './kept.ts';

/** What is kept of sessions, by id. */
export class SessionTable {
  readonly #kept: Map<string, Kept>;

  constructor(kept: Map<string, Kept> = new Map()) {
    this.#kept = kept;
  }

  get size(): number {
    return this.#kept.size;
  }

  get(id: string): Kept | undefined {
    return this.#kept.get(id);
  }

  ended(id: string): boolean {
    return this.#kept.get(id)?.kind === 'ended';
  }

  state(id: string): SessionState | undefined {
    const kept = this.#kept.get(id);
    return kept?.kind === 'changed' ? kept.state : undefined;
  }

  /** Replaces what is kept of a session; undefined for nothing. */
  set(id: string, kept: Kept | undefined): void {
    if (kept) this.#kept.set(id, kept);
    else this.#kept.delete(id);
  }

  /** Takes out what nobody can ask for any more. `now` in epoch milliseconds. */
  forgetExpired(now: number): void {
    for (const [id, { expires }] of this.#kept) if (expires <= now) this.#kept.delete(id);
  }

  /** All of it, as it is now. */
  entries(): [string, Kept][] {
    return [...this.#kept];
  }
}

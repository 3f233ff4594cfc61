import type { SessionState } from '../kept-sessions.ts';
import { type Kept, SessionStateError } from './kept.ts';

/** What the states of all sessions may come to, in characters: sessions cost a client nothing, and live for days. */
const MAX_CHARACTERS = 64 * 1024 * 1024;

/** What is kept of sessions, by id. */
export class SessionTable {
  readonly #kept: Map<string, Kept>;
  readonly #maxCharacters: number;
  #characters = 0;

  /** `maxCharacters` is for tests. */
  constructor(kept: Map<string, Kept> = new Map(), maxCharacters: number = MAX_CHARACTERS) {
    this.#kept = kept;
    this.#maxCharacters = maxCharacters;
    for (const one of kept.values()) this.#characters += sizeOf(one);
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

  /** Throws {@link SessionStateError} when there is no room for a session's state to grow from `before` to `after`. */
  checkRoom(before: Kept | undefined, after: Kept | undefined): void {
    const grown = sizeOf(after) - sizeOf(before);
    if (grown <= 0 || this.#characters + grown <= this.#maxCharacters) return;
    throw new SessionStateError('too_large', 'the sessions of all clients hold as much as they may; try again later');
  }

  /** Replaces what is kept of a session; undefined for nothing. */
  set(id: string, kept: Kept | undefined): void {
    this.#characters += sizeOf(kept) - sizeOf(this.#kept.get(id));
    if (kept) this.#kept.set(id, kept);
    else this.#kept.delete(id);
  }

  /** Takes out what nobody can ask for any more. `now` in epoch milliseconds. */
  forgetExpired(now: number): void {
    for (const [id, { expires }] of this.#kept) if (expires <= now) this.set(id, undefined);
  }

  /** All of it, as it is now. */
  entries(): [string, Kept][] {
    return [...this.#kept];
  }
}

/** Characters of the subscriptions that are kept of a session. */
function sizeOf(kept: Kept | undefined): number {
  if (kept?.kind !== 'changed') return 0;
  return kept.state.subscriptions.reduce((sum, { uri, forward }) => sum + uri.length + forward.length, 0);
}

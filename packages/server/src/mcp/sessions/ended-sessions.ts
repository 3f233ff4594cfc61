import { Quota, type QuotaOwner } from '../../http/quota.ts';

/** Default of SERVICE_MAX_ENDED_SESSIONS. */
export const MAX_ENDED_SESSIONS = 100_000;

/** Sessions of an owner that are over although their ends are forgotten: those that expire at this time or before. */
export interface ForgottenSessions {
  readonly namespace: string;
  /** Name of the quota owner; undefined for all of the namespace. */
  readonly name?: string | undefined;
  /** Epoch milliseconds. */
  readonly expires: number;
}

/**
 * Ends of sessions. An ended session must never be valid again, so that the limit cannot be kept by forgetting alone: when the end
 * of a session is forgotten, all sessions of the same owner in the same namespace that are as old or older are over too, and their
 * clients have to initialize again. Nobody else's are.
 */
export class EndedSessions {
  readonly #limit: number;
  /** Ids of ended sessions. */
  readonly #quota: Quota<string>;
  readonly #ended = new Map<string, { readonly holder: QuotaOwner; readonly expires: number }>();
  /** By namespace and name of the owner; undefined for all of the namespace. */
  readonly #forgotten = new Map<string, Map<string | undefined, number>>();
  #forgottenSize = 0;

  constructor(limit: number = MAX_ENDED_SESSIONS) {
    this.#limit = limit;
    this.#quota = new Quota(limit);
  }

  /** Adds an ended session. Returns the ids of those that are forgotten for it, its own if the owner may have none. */
  add(id: string, holder: QuotaOwner, expires: number): string[] {
    const forgotten: string[] = [];
    if (this.#ended.has(id)) return forgotten;
    const forget = (victim: string): void => {
      const session = this.#ended.get(victim) ?? { holder, expires };
      this.#ended.delete(victim);
      forgotten.push(victim);
      this.addForgotten({ ...session.holder, expires: session.expires });
    };
    if (this.#quota.evict(holder, 1, forget)) this.restore(id, holder, expires);
    else forget(id);
    return forgotten;
  }

  /** Counts an ended session that another replica has stored; that replica also forgets those that are too many. */
  restore(id: string, holder: QuotaOwner, expires: number): void {
    if (this.#ended.has(id)) return;
    this.#ended.set(id, { holder, expires });
    this.#quota.set(id, holder, 1);
  }

  delete(id: string): void {
    this.#ended.delete(id);
    this.#quota.delete(id);
  }

  /** True if a session of this owner is over because it is as old as a forgotten one. */
  covers({ namespace, name }: QuotaOwner, expires: number): boolean {
    const users = this.#forgotten.get(namespace);
    if (!users) return false;
    return expires <= Math.max(users.get(name) ?? 0, users.get(undefined) ?? 0);
  }

  /** Removes what concerns expired sessions only. */
  removeExpired(now: number): void {
    for (const [namespace, users] of this.#forgotten) {
      for (const [name, expires] of users) if (expires <= now && users.delete(name)) this.#forgottenSize--;
      if (users.size === 0) this.#forgotten.delete(namespace);
    }
  }

  /** A copy of what has to be stored besides the ended sessions. */
  forgotten(): ForgottenSessions[] {
    return [...this.#forgotten].flatMap(([namespace, users]) =>
      [...users].map(([name, expires]) => (name === undefined ? { namespace, expires } : { namespace, name, expires })),
    );
  }

  /** All sessions of an owner that expire at this time or before are over. */
  addForgotten({ namespace, name, expires }: ForgottenSessions): void {
    const users = this.#forgotten.get(namespace) ?? new Map<string | undefined, number>();
    this.#forgotten.set(namespace, users);
    if (!users.has(name)) this.#forgottenSize++;
    users.set(name, Math.max(users.get(name) ?? 0, expires));
    if (this.#forgottenSize <= this.#limit) return;
    // Clients with that many addresses concern their whole namespace: memory is limited in any case.
    const latest = users.values().reduce((some, other) => Math.max(some, other));
    this.#forgottenSize -= users.size - 1;
    users.clear();
    users.set(undefined, latest);
  }
}

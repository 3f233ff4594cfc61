import { z } from 'zod';
import type { SessionState } from '../kept-sessions.ts';
import { forwardsByUri, type Kept, keptState, stateOf } from './kept.ts';

const end = z.object({ op: z.literal('end'), id: z.string(), expires: z.number() });
const change = z.object({
  op: z.literal('change'),
  id: z.string(),
  expires: z.number(),
  /** The new level, null for none; missing: as it was. */
  logLevel: z.string().nullable().optional(),
  /** Uri and forward, of uris that are new or at another forward. */
  subscribed: z.array(z.tuple([z.string(), z.string()])).optional(),
  unsubscribed: z.array(z.string()).optional(),
});

/** What a line of the journal holds: what happened to some sessions, in order. */
export const recordsSchema = z.array(z.discriminatedUnion('op', [end, change]));

/** What happened to one session: only what differs, so that its size is the change's and not the session's. */
export type SessionRecord = z.infer<typeof recordsSchema>[number];

/** What leads from one to the other; undefined when nothing differs. A session that was ended stays so. */
export function recordOf(
  id: string,
  expires: number,
  before: Kept | undefined,
  after: Kept | undefined,
): SessionRecord | undefined {
  if (before === after) return undefined;
  if (after?.kind === 'ended') return { op: 'end', id, expires };
  const [old, next] = [stateOf(before), stateOf(after)];
  const oldForwards = forwardsByUri(old.subscriptions);
  const nextForwards = forwardsByUri(next.subscriptions);
  const subscribed = [...nextForwards].filter(([uri, forward]) => oldForwards.get(uri) !== forward);
  const unsubscribed = [...oldForwards.keys()].filter((uri) => !nextForwards.has(uri));
  const levelChanged = old.logLevel !== next.logLevel;
  if (!levelChanged && subscribed.length === 0 && unsubscribed.length === 0) return undefined;
  return {
    op: 'change',
    id,
    expires,
    ...(levelChanged && { logLevel: next.logLevel ?? null }),
    ...(subscribed.length > 0 && { subscribed }),
    ...(unsubscribed.length > 0 && { unsubscribed }),
  };
}

interface Draft {
  expires: number;
  logLevel: string | undefined;
  readonly forwards: Map<string, string>;
}

/** What a snapshot holds, and then the records that came after it, put on top in order. */
export class Replay {
  readonly #kept: Map<string, Kept>;
  /** Sessions that records changed: a thousand records of one session do not copy its state a thousand times. */
  readonly #drafts = new Map<string, Draft>();

  constructor(snapshot: Map<string, Kept>) {
    this.#kept = snapshot;
  }

  apply(record: SessionRecord): void {
    const { id, expires } = record;
    if (record.op === 'end') {
      this.#drafts.delete(id);
      this.#kept.set(id, { kind: 'ended', expires });
      return;
    }
    const draft = this.#draft(id, expires);
    if (!draft) return;
    draft.expires = expires;
    if (record.logLevel !== undefined) draft.logLevel = record.logLevel ?? undefined;
    for (const uri of record.unsubscribed ?? []) draft.forwards.delete(uri);
    for (const [uri, forward] of record.subscribed ?? []) draft.forwards.set(uri, forward);
  }

  /** What is kept after all of it. */
  finish(): Map<string, Kept> {
    for (const [id, { expires, logLevel, forwards }] of this.#drafts) {
      const subscriptions = [...forwards].map(([uri, forward]) => ({ uri, forward }));
      const state: SessionState = logLevel === undefined ? { subscriptions } : { logLevel, subscriptions };
      const kept = keptState(expires, state);
      if (kept) this.#kept.set(id, kept);
      else this.#kept.delete(id);
    }
    return this.#kept;
  }

  /** Undefined for a session that was ended. */
  #draft(id: string, expires: number): Draft | undefined {
    const drafted = this.#drafts.get(id);
    if (drafted) return drafted;
    const kept = this.#kept.get(id);
    if (kept?.kind === 'ended') return undefined;
    const { logLevel, subscriptions } = stateOf(kept);
    const draft: Draft = { expires, logLevel, forwards: forwardsByUri(subscriptions) };
    this.#drafts.set(id, draft);
    return draft;
  }
}

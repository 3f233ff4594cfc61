import { z } from 'zod';
import { type QuotaOwner, quotaOwnerSchema } from '../../http/shares.ts';

/** Settings and subscriptions of a client in its session. */
export interface SessionState {
  /** Minimum level of log messages; undefined unless the client set one. */
  readonly logLevel?: string | undefined;
  /** Subscribed resources, each uri once, in no particular order. */
  readonly subscriptions: readonly Subscription[];
}

/** A resource subscription and the forward that it was sent to. */
export interface Subscription {
  readonly uri: string;
  readonly forward: string;
}

/** The stored part of a session, until the session expires (`expires`, epoch milliseconds). */
export type StoredSession =
  | { readonly kind: 'ended'; readonly expires: number; readonly holder?: QuotaOwner | undefined }
  | {
      readonly kind: 'changed';
      readonly expires: number;
      readonly holder?: QuotaOwner | undefined;
      readonly state: SessionState;
    };

/** Limits of one session's state: number of subscriptions, and bytes of the whole state as JSON. */
export const STATE_LIMITS = { subscriptions: 1_000, bytes: 256 * 1024 } as const;

/** Why a state was rejected. */
export type StateRejection = 'ended' | 'too_many_subscriptions' | 'too_large';

/** A change of a session's state was rejected. */
export class SessionStateError extends Error {
  override readonly name = 'SessionStateError';
  readonly reason: StateRejection;

  constructor(reason: StateRejection, message: string) {
    super(message);
    this.reason = reason;
  }
}

const UNCHANGED: SessionState = Object.freeze({ subscriptions: Object.freeze([]) });

/** The state of a stored session; the initial state when nothing is stored. */
export function stateOf(stored: StoredSession | undefined): SessionState {
  return stored?.kind === 'changed' ? stored.state : UNCHANGED;
}

/** The stored form of a state; undefined for the initial state, which is not stored. */
export function toStored(expires: number, state: SessionState, holder?: QuotaOwner): StoredSession | undefined {
  const isInitial = state.logLevel === undefined && state.subscriptions.length === 0;
  return isInitial ? undefined : { kind: 'changed', expires, holder, state };
}

/** Returns the stored form of a session after it was ended or changed; undefined for nothing. Throws
 * {@link SessionStateError}, or the error of `change`.
 */
export function applyChange(
  before: StoredSession | undefined,
  expires: number,
  change: 'end' | ((before: SessionState) => SessionState),
  holder: QuotaOwner | undefined = before?.holder,
): StoredSession | undefined {
  if (change === 'end') return before?.kind === 'ended' ? before : { kind: 'ended', expires, holder };
  if (before?.kind === 'ended') throw new SessionStateError('ended', 'the session has ended');
  return toStored(expires, validated(change(stateOf(before))), holder);
}

/** Checks the limits and copies the state with each uri once: the caller's objects may change later. */
function validated({ logLevel, subscriptions }: SessionState): SessionState {
  const unique = [...forwardsByUri(subscriptions)].map(([uri, forward]): Subscription => ({ uri, forward }));
  if (unique.length > STATE_LIMITS.subscriptions) {
    throw new SessionStateError(
      'too_many_subscriptions',
      `too many subscriptions: a session can have ${STATE_LIMITS.subscriptions}; unsubscribe from one first`,
    );
  }
  const state: SessionState = logLevel === undefined ? { subscriptions: unique } : { logLevel, subscriptions: unique };
  if (Buffer.byteLength(JSON.stringify(state)) > STATE_LIMITS.bytes) {
    throw new SessionStateError(
      'too_large',
      `session state too large: at most ${STATE_LIMITS.bytes} bytes; unsubscribe from a resource first`,
    );
  }
  return state;
}

/** Forward by uri; the last one where a uri occurs twice. */
function forwardsByUri(subscriptions: readonly Subscription[]): Map<string, string> {
  return new Map(subscriptions.map(({ uri, forward }) => [uri, forward]));
}

/** Schema of the forgotten ends of sessions. */
export const forgottenSchema = z.object({ namespace: z.string(), name: z.string().optional(), expires: z.number() });

const endRecord = z.object({
  op: z.literal('end'),
  id: z.string(),
  expires: z.number(),
  holder: quotaOwnerSchema.optional(),
});
const changeRecord = z.object({
  op: z.literal('change'),
  id: z.string(),
  expires: z.number(),
  holder: quotaOwnerSchema.optional(),
  /** The new level, null for none; unchanged when missing. */
  logLevel: z.string().nullable().optional(),
  /** Uri and forward of new subscriptions and of those that moved to another forward. */
  subscribed: z.array(z.tuple([z.string(), z.string()])).optional(),
  unsubscribed: z.array(z.string()).optional(),
});

const storedSession = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('ended'), expires: z.number(), holder: quotaOwnerSchema.optional() }),
  z.object({
    kind: z.literal('changed'),
    expires: z.number(),
    holder: quotaOwnerSchema.optional(),
    state: z.object({
      logLevel: z.string().optional(),
      subscriptions: z.array(z.object({ uri: z.string(), forward: z.string() })),
    }),
  }),
]);

/** Reads a whole session, as `JSON.stringify` wrote it. Throws for other text. */
export function parseStoredSession(json: string): StoredSession {
  return storedSession.parse(JSON.parse(json));
}

/** Schema of one line of the journal. */
export const recordsSchema = z.array(z.discriminatedUnion('op', [endRecord, changeRecord]));

/** A journal record: the difference that a change made, so that its size does not depend on the size of the session. */
export type SessionRecord = z.infer<typeof recordsSchema>[number];

/** The record of a change; undefined when nothing differs. */
export function recordOf(
  id: string,
  expires: number,
  before: StoredSession | undefined,
  after: StoredSession | undefined,
): SessionRecord | undefined {
  if (before === after) return undefined;
  const held = after?.holder && { holder: after.holder };
  if (after?.kind === 'ended') return { op: 'end', id, expires, ...held };
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
    ...held,
    ...(levelChanged && { logLevel: next.logLevel ?? null }),
    ...(subscribed.length > 0 && { subscribed }),
    ...(unsubscribed.length > 0 && { unsubscribed }),
  };
}

interface DraftState {
  expires: number;
  holder: QuotaOwner | undefined;
  logLevel: string | undefined;
  readonly forwards: Map<string, string>;
}

/** Applies journal records to the sessions of a snapshot. */
export class SessionReplay {
  readonly #sessions: Map<string, StoredSession>;
  /** Changed sessions: a thousand records of one session must not copy its state a thousand times. */
  readonly #drafts = new Map<string, DraftState>();

  constructor(snapshot: Map<string, StoredSession>) {
    this.#sessions = snapshot;
  }

  apply(record: SessionRecord): void {
    const { id, expires, holder } = record;
    if (record.op === 'end') {
      this.#drafts.delete(id);
      this.#sessions.set(id, { kind: 'ended', expires, holder });
      return;
    }
    const draft = this.#draft(id, expires);
    if (!draft) return;
    draft.expires = expires;
    draft.holder = holder ?? draft.holder;
    if (record.logLevel !== undefined) draft.logLevel = record.logLevel ?? undefined;
    for (const uri of record.unsubscribed ?? []) draft.forwards.delete(uri);
    for (const [uri, forward] of record.subscribed ?? []) draft.forwards.set(uri, forward);
  }

  /** The sessions after all records. */
  finish(): Map<string, StoredSession> {
    for (const [id, { expires, holder, logLevel, forwards }] of this.#drafts) {
      const subscriptions = [...forwards].map(([uri, forward]) => ({ uri, forward }));
      const state = logLevel === undefined ? { subscriptions } : { logLevel, subscriptions };
      const stored = toStored(expires, state, holder);
      if (stored) this.#sessions.set(id, stored);
      else this.#sessions.delete(id);
    }
    return this.#sessions;
  }

  /** Undefined for a session that has ended. */
  #draft(id: string, expires: number): DraftState | undefined {
    const existing = this.#drafts.get(id);
    if (existing) return existing;
    const stored = this.#sessions.get(id);
    if (stored?.kind === 'ended') return undefined;
    const { logLevel, subscriptions } = stateOf(stored);
    const draft: DraftState = {
      expires,
      holder: stored?.holder,
      logLevel,
      forwards: forwardsByUri(subscriptions),
    };
    this.#drafts.set(id, draft);
    return draft;
  }
}

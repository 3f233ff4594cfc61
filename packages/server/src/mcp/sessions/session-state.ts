import { isJsonObject } from '@sluice/protocol/json/parse';
import { z } from 'zod';
import { NO_OWNER, type QuotaOwner, quotaOwnerSchema } from '../../http/quota.ts';

/** A resource subscription and the forward that it was sent to. */
export interface Subscription {
  readonly uri: string;
  readonly forward: string;
}

const sessionState = z.object({
  /** Minimum level of log messages; undefined unless the client set one. */
  logLevel: z.string().optional(),
  /** Subscribed resources, each uri once, in no particular order. Stored as an object: forwards by uri. */
  subscriptions: z
    .custom<Record<string, string>>(isForwards)
    .transform((forwards): readonly Subscription[] =>
      Object.entries(forwards).map(([uri, forward]) => ({ uri, forward })),
    ),
});

/** Settings and subscriptions of a client in its session. */
export type SessionState = Readonly<z.output<typeof sessionState>>;

/** Until when a session is stored (epoch milliseconds), and whom it counts for. */
const stored = { expires: z.number(), holder: quotaOwnerSchema };

/** Schema of the stored part of a session. */
export const storedSession = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('ended'), ...stored }),
  z.object({ kind: z.literal('changed'), ...stored, state: sessionState }),
]);

/** The stored part of a session, until the session expires. */
export type StoredSession = Readonly<z.output<typeof storedSession>>;

/** Returns the JSON of a session, as its schema reads it. */
export function encodeSession(session: StoredSession): object {
  if (session.kind === 'ended') return session;
  const { logLevel, subscriptions } = session.state;
  const byUri = Object.fromEntries(subscriptions.map(({ uri, forward }) => [uri, forward]));
  return { ...session, state: { logLevel, subscriptions: byUri } };
}

/** Schema of the forgotten ends of sessions. */
export const forgottenSchema = z.object({ namespace: z.string(), name: z.string().optional(), expires: z.number() });

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
export function stateOf(session: StoredSession | undefined): SessionState {
  return session?.kind === 'changed' ? session.state : UNCHANGED;
}

/** The stored form of a state; undefined for the initial state, which is not stored. */
export function toStored(expires: number, state: SessionState, holder: QuotaOwner): StoredSession | undefined {
  const isInitial = state.logLevel === undefined && state.subscriptions.length === 0;
  return isInitial ? undefined : { kind: 'changed', expires, holder, state };
}

/**
 * Returns the stored form of a session after it was ended or changed; undefined for nothing. Throws {@link SessionStateError}, or
 * the error of `change`.
 */
export function applyChange(
  before: StoredSession | undefined,
  expires: number,
  change: 'end' | ((before: SessionState) => SessionState),
  holder: QuotaOwner = before?.holder ?? NO_OWNER,
): StoredSession | undefined {
  if (change === 'end') return before?.kind === 'ended' ? before : { kind: 'ended', expires, holder };
  if (before?.kind === 'ended') throw new SessionStateError('ended', 'the session has ended');
  return toStored(expires, validated(change(stateOf(before))), holder);
}

/** Checks the limits and copies the state with each uri once: the caller's objects may change later. */
function validated({ logLevel, subscriptions }: SessionState): SessionState {
  const state = { logLevel, subscriptions: subscriptionsOf(forwardsByUri(subscriptions)) };
  if (state.subscriptions.length > STATE_LIMITS.subscriptions) {
    throw new SessionStateError(
      'too_many_subscriptions',
      `too many subscriptions: a session can have ${STATE_LIMITS.subscriptions}; unsubscribe from one first`,
    );
  }
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

function subscriptionsOf(forwards: ReadonlyMap<string, string>): Subscription[] {
  return Array.from(forwards, ([uri, forward]) => ({ uri, forward }));
}

function isForwards(stored: unknown): boolean {
  return isJsonObject(stored) && Object.values(stored).every((forward) => typeof forward === 'string');
}

import type { SessionState, Subscription } from '../kept-sessions.ts';

/** What is kept of one session: that it was ended, or what its client changed. */
export type Kept =
  | { readonly kind: 'ended'; readonly expires: number }
  | { readonly kind: 'changed'; readonly expires: number; readonly state: SessionState };

/** What a session's state may come to: so many subscriptions, and so many bytes of JSON altogether. */
export const STATE_LIMITS = { subscriptions: 1_000, bytes: 256 * 1024 } as const;

/** Why a state was not taken. */
export type Refusal = 'ended' | 'too_many_subscriptions' | 'too_large';

/** A session's state cannot be what a change made of it. */
export class SessionStateError extends Error {
  override readonly name = 'SessionStateError';
  readonly refusal: Refusal;

  constructor(refusal: Refusal, message: string) {
    super(message);
    this.refusal = refusal;
  }
}

/** The state of a session in which nothing was changed. */
const UNCHANGED: SessionState = Object.freeze({ subscriptions: Object.freeze([]) });

/** The state that is kept; that of a session in which nothing was changed when nothing is kept. */
export function stateOf(kept: Kept | undefined): SessionState {
  return kept?.kind === 'changed' ? kept.state : UNCHANGED;
}

/**
 * What is to be kept of a session once it was ended or changed; undefined for nothing. Throws
 * {@link SessionStateError}, or what `change` throws.
 */
export function keptAfter(
  before: Kept | undefined,
  expires: number,
  change: 'end' | ((before: SessionState) => SessionState),
): Kept | undefined {
  if (change === 'end') return before?.kind === 'ended' ? before : { kind: 'ended', expires };
  if (before?.kind === 'ended') throw new SessionStateError('ended', 'the session was ended');
  return keptState(expires, within(change(stateOf(before))));
}

/** What is to be kept for this state; undefined when that is nothing. */
export function keptState(expires: number, state: SessionState): Kept | undefined {
  const nothing = state.logLevel === undefined && state.subscriptions.length === 0;
  return nothing ? undefined : { kind: 'changed', expires, state };
}

/** The state with each uri once, if it is within the limits. What comes from outside is copied: it may change later. */
function within({ logLevel, subscriptions }: SessionState): SessionState {
  const once = [...forwardsByUri(subscriptions)].map(([uri, forward]): Subscription => ({ uri, forward }));
  if (once.length > STATE_LIMITS.subscriptions) {
    throw new SessionStateError(
      'too_many_subscriptions',
      `a session may have ${STATE_LIMITS.subscriptions} subscriptions; unsubscribe from one first`,
    );
  }
  const state: SessionState = logLevel === undefined ? { subscriptions: once } : { logLevel, subscriptions: once };
  if (Buffer.byteLength(JSON.stringify(state)) > STATE_LIMITS.bytes) {
    throw new SessionStateError(
      'too_large',
      `subscriptions and log level of a session may have ${STATE_LIMITS.bytes} bytes; unsubscribe from something first`,
    );
  }
  return state;
}

/** The forward of each uri; the last one where a uri is given twice. */
export function forwardsByUri(subscriptions: readonly Subscription[]): Map<string, string> {
  return new Map(subscriptions.map(({ uri, forward }) => [uri, forward]));
}

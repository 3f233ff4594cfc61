import type { ToolCallErrorCategory, ToolCallOutcome } from '@sluice/contract';
import type { JsonObject } from '@sluice/protocol/json/parse';
import { type Era, SERVER_ERROR } from '@sluice/protocol/mcp/constants';
import type { NotificationMessage } from '@sluice/protocol/mcp/message';
import { type Correlation, servedOf } from '../exchange/correlation.ts';
import type { AdmittedSource, IsRejected } from '../http/admitted-requests.ts';
import type { RpcError } from '../http/outcome.ts';
import type { Authenticated } from '../identity/authenticator.ts';
import type { StoredPrincipal } from '../identity/principal.ts';
import type { Steps } from '../registry/steps.ts';
import type { RequestOutcome } from './deferred-outcome.ts';
import type { UpstreamSession } from './mcp/upstream-sessions.ts';
import { tokenOf } from './progress.ts';

/** Why the service ends a call by itself: what its client gets, and what is recorded of it. */
export interface CallEnd {
  readonly error: RpcError;
  readonly category: ToolCallErrorCategory;
}

/** A call that has deadlines, and that messages of the client or the upstream may refer to. Times are those of `performance.now()`. */
export interface InFlightCall {
  /** The request that is executed. */
  readonly client: CallingClient;
  /** Forward that executes it, if that is known and it has one. */
  readonly forward?: string | undefined;
  readonly startedAt: number;
  /** Time of the last activity of the other side, or of the last check at which it might be idle. */
  lastActivityAt: number;
  /** True while the other side may be idle: only the total time is limited. */
  readonly mayBeIdle?: boolean;
  /** Index in {@link InFlightCalls}, which sets it; -1 while the call is not in flight. */
  index: number;
  /** Set while its request is in flight upstream. */
  readonly attempt?: RequestInSession | undefined;
  /** The client canceled the call with this `notifications/cancelled`: it gets no response. */
  cancel(message: NotificationMessage): void;
  /** Called once when a limit is exceeded; undefined for a call without limits. */
  onDeadline?(limit: 'idle' | 'total'): void;
  /** Called once when the service ends the call. */
  end?(by: CallEnd): void;
}

/** The client of a call. */
interface CallingClient {
  readonly idText: string;
  readonly session: { readonly id: string } | undefined;
  readonly principal?: Pick<StoredPrincipal, 'id'>;
  /** Undefined for calls of our own. */
  readonly authenticated?: Authenticated | undefined;
  readonly namespace?: string | { readonly name: string } | undefined;
  readonly correlation?: Pick<Correlation, 'via'>;
}

/** A request in flight in a session of an upstream, to which messages on the session's own stream may belong. */
export interface RequestInSession {
  readonly session: UpstreamSession;
  readonly response: MessageReceiver;
  /** True if the request has this progress token. */
  hasProgressToken(token: string | undefined): boolean;
}

/** Receives messages for a request from other streams than its own. */
export interface MessageReceiver {
  /** True while the upstream may be idle. */
  readonly mayBeIdle: boolean;
  /** A progress notification with the token of the request has arrived. */
  onProgress(text: string): void;
  /** Another message for the request has arrived. False: send no more until `resume` of the session's bridge is called. */
  onMessage(text: string, value: JsonObject): boolean;
}

export interface DeadlineLimits {
  /** SERVICE_UPSTREAM_IDLE_TIMEOUT_MS. */
  readonly idleMs: number;
  /** SERVICE_UPSTREAM_MAX_TIMEOUT_MS. */
  readonly totalMs: number;
}

/**
 * All calls in flight. Ends those that exceed a deadline: one timer checks all of them, since a timer per call would be too
 * expensive. Finds the call that a message refers to, which is so rare that there is no index.
 */
export class InFlightCalls implements AdmittedSource {
  readonly limits: DeadlineLimits;
  /**
   * Unordered. Not a Set: a Set with so many insertions and deletions is rehashed all the time, and each old table retains
   * the next one with its members. Measured, that doubled the cost of a call.
   */
  readonly #calls: InFlightCall[] = [];
  readonly #timer: NodeJS.Timeout;

  constructor(limits: DeadlineLimits) {
    this.limits = limits;
    const step = Math.min(1_000, Math.max(10, Math.min(limits.idleMs, limits.totalMs) / 4));
    this.#timer = setInterval(() => this.#sweep(), step);
    this.#timer.unref();
  }

  get size(): number {
    return this.#calls.length;
  }

  add(call: InFlightCall): void {
    if (call.index !== -1) return;
    call.index = this.#calls.length;
    this.#calls.push(call);
  }

  remove(call: InFlightCall): void {
    const { index } = call;
    const last = index === -1 ? undefined : this.#calls.pop();
    call.index = -1;
    if (last === undefined || last === call) return;
    this.#calls[index] = last;
    last.index = index;
  }

  find(test: (call: InFlightCall) => boolean): InFlightCall | undefined {
    return this.#calls.find(test);
  }

  /** The call for the request with this id of a client's session. */
  ofRequest(session: string, idText: string): InFlightCall | undefined {
    return this.#calls.find(({ client }) => client.idText === idText && client.session?.id === session);
  }

  /**
   * Dispatches a progress notification on the stream of an upstream session to the call with its token that was sent in that
   * session. Of other sessions and users, no call gets it, whatever the token.
   */
  dispatchProgress(session: UpstreamSession, text: string, value: JsonObject): void {
    const token = tokenOf(value);
    const call = this.find(({ attempt }) => attempt?.session === session && attempt.hasProgressToken(token));
    call?.attempt?.response.onProgress(text);
  }

  /** Ends all calls because the service stops; returns their number. */
  endAll(): number {
    const calls = [...this.#calls];
    for (const call of calls) if (call.index !== -1) call.end?.(SHUTDOWN);
    return calls.length;
  }

  /** Ends the calls for which this is true, also upstream. */
  *endWhere(test: (call: InFlightCall) => boolean, by: CallEnd): Steps<void> {
    for (const call of [...this.#calls]) {
      if (call.index !== -1 && test(call)) call.end?.(by);
      yield;
    }
  }

  /** Ends the calls of clients whose credential is not accepted any more. */
  revoke(isRejected: IsRejected): Steps<void> {
    return this.endWhere(({ client: { authenticated, namespace, correlation = {} } }) => {
      const name = typeof namespace === 'object' ? namespace.name : namespace;
      return authenticated !== undefined && isRejected(authenticated, servedOf(correlation), name);
    }, REVOKED);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #sweep(): void {
    const now = performance.now();
    for (const call of [...this.#calls]) {
      // The callback of an earlier call may have ended this one.
      if (call.index === -1 || !call.onDeadline) continue;
      const total = now - call.startedAt > this.limits.totalMs;
      if (!total && now - call.lastActivityAt <= this.limits.idleMs) continue;
      if (!total && (call.mayBeIdle || call.attempt?.response.mayBeIdle)) {
        call.lastActivityAt = now;
        continue;
      }
      this.remove(call);
      call.onDeadline(total ? 'total' : 'idle');
    }
  }
}

/** Reasons of cancellations, in tool-call events and to upstreams. */
export const CLIENT_DISCONNECTED = 'the client has disconnected';
export const CLIENT_CANCELED = 'the client canceled the call';

/** Error for calls that are not finished when the service stops. */
const SHUTTING_DOWN: RpcError = { code: SERVER_ERROR, message: 'service is shutting down' };
/** The end of all calls when the service stops. */
export const SHUTDOWN: CallEnd = { error: SHUTTING_DOWN, category: 'SERVICE_UNAVAILABLE' };

/** The end of calls whose client's credential is not accepted any more. */
const REVOKED: CallEnd = {
  error: { code: SERVER_ERROR, message: 'the credential of this call is not accepted any more' },
  category: 'POLICY_BLOCKED',
};

/** The request of a {@link CancelableRequest}. */
export interface CancelableInput extends CallingClient {
  readonly era: Era;
  readonly facts: { outcome: ToolCallOutcome | undefined };
  /** Closes when the client disconnects. */
  readonly response: { on(event: 'close', listener: () => void): unknown };
}

/**
 * A request that waits before it is executed: for evaluators, or for the eras of its upstream. Until then its client can cancel
 * it like a call: by a notification in the legacy era, by disconnecting in the modern one. Nothing of a canceled request is sent
 * upstream. What it waits for has its own deadlines.
 */
export class CancelableRequest implements InFlightCall {
  readonly startedAt: number = performance.now();
  lastActivityAt: number = this.startedAt;
  index = -1;
  readonly client: CancelableInput;
  readonly #calls: InFlightCalls;
  readonly #abort = new AbortController();
  readonly #canceled = Promise.withResolvers<RequestOutcome>();
  /** The request does not wait any more: others handle its end. */
  #isOver = false;

  constructor(request: CancelableInput, calls: InFlightCalls) {
    this.client = request;
    this.#calls = calls;
  }

  /** Aborted when the request is canceled; the reason is a text. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** Resolves with the awaited outcome, or as soon as the request is canceled with the outcome of that. */
  async outcome<Awaited>(awaited: Promise<Awaited>): Promise<Awaited | RequestOutcome> {
    const { response, era } = this.client;
    this.#calls.add(this);
    if (era === 'modern') response.on('close', () => this.#cancel(CLIENT_DISCONNECTED, 'canceled'));
    try {
      return await Promise.race([this.#canceled.promise, awaited]);
    } finally {
      this.#calls.remove(this);
      this.#isOver = true;
    }
  }

  cancel(): void {
    this.#cancel(CLIENT_CANCELED, 'canceled');
  }

  /** Cancels the request because the service stops. */
  abort(): void {
    this.#cancel('the service was stopped', 'failed');
  }

  end({ error }: CallEnd): void {
    this.#canceled.resolve({ kind: 'error', error });
    this.#abort.abort(error.message);
  }

  #cancel(reason: string, outcome: ToolCallOutcome): void {
    if (this.#isOver) return;
    this.client.facts.outcome = outcome;
    this.#canceled.resolve({ kind: 'deferred', start: (sink) => sink.complete({ kind: 'canceled' }) });
    this.#abort.abort(reason);
  }
}

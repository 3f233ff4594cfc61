import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { readsStreams } from '@sluice/protocol/mcp/era';
import type { NotificationMessage } from '@sluice/protocol/mcp/message';
import type { Outcome, RequestContext } from '../../../http/context.ts';
import type { Upstream, UpstreamSession } from '../upstream.ts';

/** A call, as it is watched for silence and for its whole length. */
export interface Watched {
  /** When it began, and when the other side last gave a sign of life: milliseconds of {@link InFlightCalls.now}. */
  readonly startedAt: number;
  readonly activeAt: number;
  /** Kept by {@link InFlightCalls}: its place there, -1 while it is not watched. */
  slot: number;
  /** Set when {@link onLasting} was called. */
  lasting: boolean;
  /** Called once, when it has gone on for so long that its client may lose the connection over it. */
  onLasting(): void;
  /** Called once, when a limit is passed. */
  onDeadline(limit: 'silence' | 'total'): void;
}

export interface DeadlineLimits {
  /** SERVICE_UPSTREAM_IDLE_TIMEOUT_MS. */
  readonly silenceMs: number;
  /** SERVICE_UPSTREAM_MAX_TIMEOUT_MS. */
  readonly totalMs: number;
}

/** From about here on a call lasts. */
const SLOW_CALL_MS = 500;

/**
 * All calls under way. Ends those whose upstream stays silent, or that have lasted too long (decisions 4.7): one timer
 * looks at all of them every so often, since a timer per call would cost each call more than its deadline is worth. And
 * finds the call that a message means, which is so rare that calls are not indexed for it.
 */
export class InFlightCalls<Call extends Watched> {
  readonly limits: DeadlineLimits;
  /**
   * In no order. Not a Set: one whose members come and go at this rate is copied all the time, and a copy that has
   * grown old keeps the next one alive with all that is in it. Measured, that doubled what a call costs.
   */
  readonly #watched: Call[] = [];
  readonly #timer: NodeJS.Timeout;

  constructor(limits: DeadlineLimits) {
    this.limits = limits;
    const step = Math.min(1_000, Math.max(10, Math.min(limits.silenceMs, limits.totalMs) / 4));
    this.#timer = setInterval(() => this.#sweep(), step);
    this.#timer.unref();
  }

  /** How many there are. */
  get size(): number {
    return this.#watched.length;
  }

  now(): number {
    return performance.now();
  }

  watch(call: Call): void {
    if (call.slot !== -1) return;
    call.slot = this.#watched.length;
    this.#watched.push(call);
  }

  unwatch(call: Call): void {
    const { slot } = call;
    const last = slot === -1 ? undefined : this.#watched.pop();
    call.slot = -1;
    if (last === undefined || last === call) return;
    this.#watched[slot] = last;
    last.slot = slot;
  }

  /** The call that the test is true of. */
  find(test: (call: Call) => boolean): Call | undefined {
    return this.#watched.find(test);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #sweep(): void {
    const now = this.now();
    for (const call of [...this.#watched]) {
      // One that was told before may have ended this one.
      if (call.slot === -1) continue;
      if (!call.lasting && now - call.startedAt > SLOW_CALL_MS) {
        call.lasting = true;
        call.onLasting();
      }
      const total = now - call.startedAt > this.limits.totalMs;
      if (!total && now - call.activeAt <= this.limits.silenceMs) continue;
      this.unwatch(call);
      call.onDeadline(total ? 'total' : 'silence');
    }
  }
}

/** Why nobody waits for a call any more, as its events say it, and upstreams are told. */
export const CLIENT_LEFT = 'the client has left';
/** As {@link CLIENT_LEFT}. */
export const CLIENT_CANCELLED = 'the client cancelled the call';

/** A call that messages of the client's or the upstream's may mean, as it is found among all that are under way. */
export interface InFlightCall extends Watched {
  /** True for the call that answers this request of this session. */
  isFor(session: string, idText: string): boolean;
  /** The client no longer wants the answer, as it says in this `notifications/cancelled`: nor does it get one. */
  cancel(message: NotificationMessage): void;
  /**
   * True for the call of this session (undefined: of none) that gave out this progress token to this upstream. This and
   * what follows is there while a request is under way upstream.
   */
  reportsTo?(upstream: Upstream, session: string | undefined, token: unknown): boolean;
  /** A progress notification of the upstream's that did not come on the call's own stream. */
  progressed?(text: string, value: JsonObject): void;
  /** True for a call that goes out over this link. */
  uses?(link: UpstreamSession): boolean;
  /**
   * A request or notification for this call that came on its session's own stream. False: send no more until the link's
   * channel is told to `resume`.
   */
  overheard?(text: string, value: JsonObject): boolean;
}

/** Hands a progress notification to the call that it is for, of this session (undefined: of none) at this upstream. */
export function passProgress(
  calls: Pick<InFlightCalls<InFlightCall>, 'find'>,
  upstream: Upstream,
  session: string | undefined,
  text: string,
  value: JsonObject,
): void {
  const token = isJsonObject(value.params) ? value.params.progressToken : undefined;
  calls.find((call) => call.reportsTo?.(upstream, session, token) ?? false)?.progressed?.(text, value);
}

/**
 * A request that waits for something before it is carried out: for evaluators that judge it, or for its upstream to say what
 * it speaks. As long as it does, its client can take it back as it can a call that is carried out (mcp 1, 4): by a
 * cancellation in the legacy era, by leaving in the modern one. Then nothing of it is passed on.
 */
export class CancelableRequest implements InFlightCall {
  readonly startedAt: number;
  activeAt: number;
  slot = -1;
  lasting = false;
  readonly #context: RequestContext;
  readonly #calls: InFlightCalls<InFlightCall>;
  readonly #ending = new AbortController();
  readonly #ended = Promise.withResolvers<Outcome>();

  constructor(context: RequestContext, calls: InFlightCalls<InFlightCall>) {
    this.#context = context;
    this.#calls = calls;
    this.startedAt = calls.now();
    this.activeAt = this.startedAt;
  }

  /** Nobody waits for it any more; the reason says why, as a text. */
  get signal(): AbortSignal {
    return this.#ending.signal;
  }

  /** What it comes to, or at once the answer of a request that was taken back. */
  async outcome(awaited: Promise<Outcome | undefined>): Promise<Outcome | undefined> {
    const { client, era } = this.#context;
    this.#calls.watch(this);
    if (era === 'modern') client?.on('close', () => this.#end(CLIENT_LEFT));
    try {
      return await Promise.race([this.#ended.promise, awaited]);
    } finally {
      this.#calls.unwatch(this);
    }
  }

  isFor(session: string, idText: string): boolean {
    return this.#context.session?.id === session && this.#context.idText === idText;
  }

  cancel(): void {
    this.#end(CLIENT_CANCELLED);
  }

  /** The process does not wait for it any longer. */
  stop(): void {
    this.#end('the service was stopped');
  }

  /** There is no stream yet that its client could come back to: whether it will be one is not known. */
  onLasting(): void {}

  /** What it waits for has deadlines of its own. */
  onDeadline(): void {
    this.activeAt = this.#calls.now();
    this.#calls.watch(this);
  }

  #end(why: string): void {
    const streams = readsStreams(this.#context.headers.accept);
    this.#ended.resolve({ kind: 'stream', start: (client) => client.cancelled(streams) });
    this.#ending.abort(why);
  }
}

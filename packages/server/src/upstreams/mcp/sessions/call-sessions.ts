import type { JsonObject } from '@sluice/protocol/json/parse';
import { LIST_CHANGED_METHODS } from '@sluice/protocol/mcp/constants';
import { type InFlightCall, type InFlightCalls, passProgress } from '../relay/in-flight.ts';
import { Refusals } from '../relay/request-rewrite.ts';
import { postMessage } from '../rpc-request.ts';
import { SessionStream, type SessionStreamSink } from '../streams/notification-stream.ts';
import type { LinkOwner, SessionNotificationBridge, Upstream, UpstreamSession } from '../upstream.ts';
import { withTimeout } from '../with-timeout.ts';

/** The notification stream of a session that calls have for themselves, one at a time: what comes is for that call. */
export class CallChannel implements SessionNotificationBridge, SessionStreamSink {
  readonly pinned = false;
  /** Ends when the upstream's stream is there, or never will be. */
  readonly ready: Promise<void>;
  readonly #upstream: Upstream;
  readonly #link: UpstreamSession;
  readonly #calls: InFlightCalls<InFlightCall>;
  readonly #closed: () => void;
  readonly #refusals: Refusals;
  readonly #stream: SessionStream | undefined;
  #settle: () => void = () => undefined;

  constructor(
    upstream: Upstream,
    link: UpstreamSession,
    headers: readonly string[],
    calls: InFlightCalls<InFlightCall>,
    closed: () => void,
  ) {
    this.#upstream = upstream;
    this.#link = link;
    this.#calls = calls;
    this.#closed = closed;
    // Without a session nothing says whose stream it is: an upstream would ask one client what it means for another.
    const streams = link.sessionId !== undefined;
    this.ready = new Promise((resolve) => {
      this.#settle = resolve;
      if (!streams) resolve();
    });
    const own = [...link.identity, ...headers];
    this.#refusals = new Refusals((answer) => postMessage(upstream.transport, own, answer));
    this.#stream = streams ? new SessionStream(upstream.transport, own, this) : undefined;
  }

  onMessage(text: string, value: JsonObject): boolean {
    const { method } = value;
    if (typeof method !== 'string') return true;
    if (LIST_CHANGED_METHODS.has(method)) {
      this.#upstream.changed();
      return true;
    }
    if (method === 'notifications/progress') {
      passProgress(this.#calls, this.#upstream, undefined, text, value);
      return true;
    }
    const call = this.#calls.find((candidate) => candidate.uses?.(this.#link) ?? false);
    if (call?.overheard) return call.overheard(text, value);
    if ('id' in value) this.#refusals.refuse(text, method);
    return true;
  }

  onOpen(): void {
    this.#settle();
  }

  onUnavailable(): void {
    this.#settle();
  }

  /** Some say so of a stream that they do not offer; if it is the session, the next call finds out. */
  onSessionLost(): void {
    this.#settle();
  }

  missed(): void {}

  resume(): void {
    this.#stream?.resume();
  }

  close(): void {
    this.#settle();
    this.#stream?.close();
    this.#closed();
  }
}

/** A session's own stream is waited for so long, in milliseconds: some servers only begin it with a first message. */
const STREAM_MS = 500;
/** Sessions with one upstream that wait for a call; of more, the oldest are ended. */
const MAX_IDLE = 32;

/**
 * Sessions with legacy upstreams for the calls of modern clients that can be asked something: each call has one for
 * itself, so that whatever the upstream asks in it is asked by that call, on whichever stream it comes. When the call is
 * over, the next one of an equal client has it: calls that follow on each other share a session.
 */
export class CallSessionPool {
  readonly #calls: InFlightCalls<InFlightCall>;
  /** Of each upstream those that are open, the latest last. */
  readonly #open = new WeakMap<Upstream, CallSession[]>();
  #opened = 0;

  constructor(calls: InFlightCalls<InFlightCall>) {
    this.#calls = calls;
  }

  /** A session that no call has, of owners with this key. Rejects with `UpstreamError`. */
  take(upstream: Upstream, owner: LinkOwner): UpstreamSession | Promise<UpstreamSession> {
    const free = this.#open.get(upstream)?.find(({ key, link }) => key === owner.key && isFree(link));
    if (free) {
      free.link.taken = true;
      return free.link;
    }
    const key = `${owner.key} ${++this.#opened}`;
    return upstream.links.open({ ...owner, key, opened: (link) => this.#begin(upstream, owner, link) });
  }

  async #begin(upstream: Upstream, { key, headers }: LinkOwner, link: UpstreamSession): Promise<void> {
    link.taken = true;
    const sessions = this.#open.get(upstream) ?? [];
    this.#open.set(upstream, sessions);
    const session = { key, link };
    const closed = () => {
      const at = sessions.indexOf(session);
      if (at !== -1) sessions.splice(at, 1);
    };
    const channel = new CallChannel(upstream, link, headers, this.#calls, closed);
    link.channel = channel;
    sessions.push(session);
    // Clients choose what they declare: what they leave behind must not grow without an end.
    const idle = sessions.filter((other) => isFree(other.link));
    for (const { link: oldest } of idle.slice(0, Math.max(idle.length - MAX_IDLE, 0))) upstream.links.forget(oldest);
    // What the upstream asks before its stream is there would be lost.
    await withTimeout(STREAM_MS, channel.ready);
  }
}

interface CallSession {
  /** Of owners who are equal to the upstream. */
  readonly key: string;
  readonly link: UpstreamSession;
}

function isFree({ taken, active }: UpstreamSession): boolean {
  return !taken && active === 0;
}

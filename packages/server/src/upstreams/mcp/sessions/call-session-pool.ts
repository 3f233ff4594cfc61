import type { JsonObject } from '@sluice/protocol/json/parse';
import { LIST_CHANGED_METHODS } from '@sluice/protocol/mcp/constants';
import { withTimeout } from '@sluice/protocol/timing';
import type { InFlightCalls } from '../../in-flight-calls.ts';
import type { LegacyClient } from '../rpc-client.ts';
import { STREAM_HEAD_MS } from '../streams/legacy-driver.ts';
import { NotificationStream, type NotificationStreamHandler } from '../streams/notification-stream.ts';
import type { SessionNotificationBridge, SessionOwner, Upstream, UpstreamSession } from '../upstream.ts';

/** Handles a message about a task, as text and parsed; false for other messages. */
export type TaskMessageHandler = (
  upstream: Upstream,
  session: UpstreamSession,
  text: string,
  value: JsonObject,
) => boolean;

/** Dispatches the messages on the notification stream of an exclusive session to the call that has leased it. */
class CallNotificationBridge implements SessionNotificationBridge, NotificationStreamHandler {
  readonly pinned = false;
  /** Resolves once the upstream's stream is open, or will never be. */
  readonly ready: Promise<void>;
  readonly #upstream: Upstream;
  readonly #session: UpstreamSession;
  readonly #calls: InFlightCalls;
  readonly #onTaskMessage: TaskMessageHandler | undefined;
  readonly #onClosed: () => void;
  readonly #stream: NotificationStream | undefined;
  #setReady: () => void = () => undefined;

  constructor(
    upstream: Upstream,
    session: UpstreamSession,
    client: LegacyClient,
    headers: readonly string[],
    calls: InFlightCalls,
    onTaskMessage: TaskMessageHandler | undefined,
    onClosed: () => void,
  ) {
    this.#onTaskMessage = onTaskMessage;
    this.#upstream = upstream;
    this.#session = session;
    this.#calls = calls;
    this.#onClosed = onClosed;
    // A stream without a session id has no owner: an upstream would send one client requests meant for another.
    const streams = session.sessionId !== undefined;
    this.ready = new Promise((resolve) => {
      this.#setReady = resolve;
      if (!streams) resolve();
    });
    this.#stream = streams ? new NotificationStream(upstream.transport, client, headers, this) : undefined;
  }

  onMessage(text: string, value: JsonObject): boolean {
    const { method } = value;
    if (typeof method !== 'string') return true;
    if (LIST_CHANGED_METHODS.has(method)) {
      this.#upstream.observer.onListsChanged(method);
      return true;
    }
    if (method === 'notifications/progress') {
      this.#calls.dispatchProgress(this.#session, text, value);
      return true;
    }
    if (this.#onTaskMessage?.(this.#upstream, this.#session, text, value)) return true;
    const call = this.#calls.find(({ attempt }) => attempt?.session === this.#session);
    if (call?.attempt) return call.attempt.onMessage(text, value);
    if ('id' in value) this.#stream?.respondByDefault(text, method);
    return true;
  }

  onOpen(): void {
    this.#setReady();
  }

  onUnavailable(): void {
    this.#setReady();
  }

  /** The next call detects that. */
  onSessionLost(): void {
    this.#setReady();
  }

  onMissed(): void {}

  resume(): void {
    this.#stream?.resume();
  }

  close(): void {
    this.#setReady();
    this.#stream?.close();
    this.#onClosed();
  }
}

/** Maximum number of idle sessions with one upstream; of more, the oldest are closed. */
const MAX_IDLE = 32;

/**
 * Sessions with legacy upstreams for calls of modern clients that support server requests. Each call leases one, so
 * that every server request in it belongs to that call, on any stream. When the call is over, the next call of an equal
 * client reuses the session.
 */
export class CallSessionPool {
  readonly #calls: InFlightCalls;
  readonly #onTaskMessage: TaskMessageHandler | undefined;
  /** Open sessions by upstream, the newest last. */
  readonly #sessions = new WeakMap<Upstream, PooledSession[]>();
  #opened = 0;

  constructor(calls: InFlightCalls, onTaskMessage?: TaskMessageHandler) {
    this.#calls = calls;
    this.#onTaskMessage = onTaskMessage;
  }

  /** Leases an idle session of owners with this key, or opens one. Rejects with `UpstreamError`. */
  acquire(upstream: Upstream, owner: SessionOwner): UpstreamSession | Promise<UpstreamSession> {
    const idle = this.#sessions.get(upstream)?.find(({ key, session }) => key === owner.key && isIdle(session));
    if (idle) {
      idle.session.leased = true;
      return idle.session;
    }
    const key = `${owner.key} ${++this.#opened}`;
    return upstream.sessions.open({
      ...owner,
      key,
      isExclusive: true,
      onOpened: (session, client) => this.#onOpened(upstream, owner, session, client),
    });
  }

  async #onOpened(
    upstream: Upstream,
    { key, headers }: SessionOwner,
    session: UpstreamSession,
    client: LegacyClient,
  ): Promise<void> {
    session.leased = true;
    const pooled = this.#sessions.get(upstream) ?? [];
    this.#sessions.set(upstream, pooled);
    const entry = { key, session };
    const onClosed = () => {
      const at = pooled.indexOf(entry);
      if (at !== -1) pooled.splice(at, 1);
    };
    const onTaskMessage = this.#onTaskMessage;
    const bridge = new CallNotificationBridge(upstream, session, client, headers, this.#calls, onTaskMessage, onClosed);
    session.bridge = bridge;
    pooled.push(entry);
    // Clients choose the capabilities that keys are made of: the number of idle sessions must be bounded.
    const idle = pooled.filter((other) => isIdle(other.session));
    for (const oldest of idle.slice(0, Math.max(idle.length - MAX_IDLE, 0))) upstream.sessions.discard(oldest.session);
    // Requests that the upstream sends before its stream is open would be lost.
    await withTimeout(STREAM_HEAD_MS, bridge.ready);
  }
}

interface PooledSession {
  /** Equal for owners that look the same to the upstream. */
  readonly key: string;
  readonly session: UpstreamSession;
}

function isIdle({ leased, inFlight }: UpstreamSession): boolean {
  return !leased && inFlight === 0;
}

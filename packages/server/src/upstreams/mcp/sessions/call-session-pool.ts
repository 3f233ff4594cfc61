import type { JsonObject } from '@sluice/protocol/json/parse';
import { LIST_CHANGED_METHODS } from '@sluice/protocol/mcp/constants';
import type { InFlightCalls } from '../../in-flight-calls.ts';
import type { LegacyClient } from '../rpc-client.ts';
import { NotificationStream } from '../streams/notification-stream.ts';
import type { Upstream } from '../upstream.ts';
import type { SessionOwner, UpstreamSession } from '../upstream-sessions.ts';

/** Handles a message about a task, as text and parsed; false for other messages. */
export type TaskMessageHandler = (
  upstream: Upstream,
  session: UpstreamSession,
  text: string,
  value: JsonObject,
) => boolean;

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
  readonly #sessions = new WeakMap<Upstream, Set<PooledSession>>();
  #opened = 0;

  constructor(calls: InFlightCalls, onTaskMessage?: TaskMessageHandler) {
    this.#calls = calls;
    this.#onTaskMessage = onTaskMessage;
  }

  /** Leases an idle session of owners with this key, or opens one. Rejects with `UpstreamError`. */
  acquire(upstream: Upstream, owner: SessionOwner): UpstreamSession | Promise<UpstreamSession> {
    const idle = this.#sessions
      .get(upstream)
      ?.values()
      .find(({ key, session }) => key === owner.key && isIdle(session));
    if (idle) {
      idle.session.use.isLeased = true;
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
    session.use.isLeased = true;
    const pooled = this.#sessions.getOrInsertComputed(upstream, () => new Set());
    const entry = { key, session };
    pooled.add(entry);
    const onMessage = (text: string, value: JsonObject): boolean => {
      const reads = this.#dispatch(upstream, session, text, value);
      if (reads === undefined && 'id' in value) stream?.respondByDefault(text, value.method);
      return reads !== false;
    };
    // A stream without a session id has no owner: an upstream would send one client requests meant for another.
    const hasStream = session.sessionId !== undefined;
    const stream = hasStream ? new NotificationStream(upstream.transport, client, headers, { onMessage }) : undefined;
    session.bridge = {
      pinned: false,
      resume: () => stream?.resume(),
      close() {
        stream?.close();
        pooled.delete(entry);
      },
    };
    // Clients choose the capabilities that keys are made of: the number of idle sessions must be bounded.
    const idle = [...pooled].filter((other) => isIdle(other.session));
    for (const oldest of idle.slice(0, Math.max(idle.length - MAX_IDLE, 0))) upstream.sessions.discard(oldest.session);
    // Requests that the upstream sends before its stream is open would be lost.
    await stream?.ready();
  }

  /**
   * Dispatches a message on the notification stream of a session to the call that has leased it. Returns false if that is not to get
   * more until the bridge is resumed, undefined if there is none.
   */
  #dispatch(upstream: Upstream, session: UpstreamSession, text: string, value: JsonObject): boolean | undefined {
    const { method } = value;
    if (LIST_CHANGED_METHODS.has(method)) upstream.changed.emit({ kind: 'lists', method });
    else if (method === 'notifications/progress') this.#calls.dispatchProgress(session, text, value);
    else if (!this.#onTaskMessage?.(upstream, session, text, value)) {
      return this.#calls.find(({ attempt }) => attempt?.session === session)?.attempt?.response.onMessage(text, value);
    }
    return true;
  }
}

interface PooledSession {
  /** Equal for owners that look the same to the upstream. */
  readonly key: string;
  readonly session: UpstreamSession;
}

function isIdle({ use }: UpstreamSession): boolean {
  return !use.isLeased && use.inFlight === 0;
}

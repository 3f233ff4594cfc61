import type { JsonObject } from '@sluice/protocol/json/parse';
import { LIST_CHANGED_METHODS } from '@sluice/protocol/mcp/constants';
import { type CallUnderWay, passProgress } from './call-under-way.ts';
import type { CallsUnderWay } from './calls-under-way.ts';
import { deliver } from './deliver.ts';
import type { LinkChannel, UpstreamLink } from './links.ts';
import { Refusals } from './refusals.ts';
import { SessionStream, type SessionStreamSink } from './session-stream.ts';
import type { Upstream } from './upstream.ts';

/** The notification stream of a session that calls have for themselves, one at a time: what comes is for that call. */
export class CallChannel implements LinkChannel, SessionStreamSink {
  readonly pinned = false;
  /** Ends when the upstream's stream is there, or never will be. */
  readonly ready: Promise<void>;
  readonly #upstream: Upstream;
  readonly #link: UpstreamLink;
  readonly #calls: CallsUnderWay<CallUnderWay>;
  readonly #closed: () => void;
  readonly #refusals: Refusals;
  readonly #stream: SessionStream | undefined;
  #settle: () => void = () => undefined;

  constructor(
    upstream: Upstream,
    link: UpstreamLink,
    headers: readonly string[],
    calls: CallsUnderWay<CallUnderWay>,
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
    this.#refusals = new Refusals((answer) => deliver(upstream.transport, own, answer));
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

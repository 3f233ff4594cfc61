import { setTimeout as delay } from 'node:timers/promises';
import type { Backoff } from '@sluice/protocol/backoff';
import type { JsonObject } from '@sluice/protocol/json/parse';
import { LEAST_LEVEL, reachesLevel } from '@sluice/protocol/mcp/capabilities';
import { LIST_CHANGED_METHODS } from '@sluice/protocol/mcp/constants';
import { legacyResourceUpdated } from '@sluice/protocol/mcp/subscriptions';
import type { SessionState } from '../sessions/kept-sessions.ts';
import type { LiveSession, SessionChannel } from '../sessions/live-sessions.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import { UpstreamError } from '../transport/upstream-error.ts';
import { type CallUnderWay, passProgress } from './call-under-way.ts';
import type { CallsUnderWay } from './calls-under-way.ts';
import { deliver } from './deliver.ts';
import type { LinkChannel, UpstreamLink } from './links.ts';
import { UpstreamQuestions } from './questions.ts';
import { Refusals } from './refusals.ts';
import { SessionStream, type SessionStreamSink } from './session-stream.ts';
import type { Upstream } from './upstream.ts';

export interface UpstreamChannelOptions {
  readonly upstream: Upstream;
  readonly link: UpstreamLink;
  /** Headers besides the link's own. */
  readonly headers: readonly string[];
  readonly live: LiveSession;
  readonly calls: CallsUnderWay<CallUnderWay>;
  readonly log: TargetLogger;
  /** Delays between attempts to have the upstream's stream; begins anew when there is one. */
  readonly backoff: Backoff;
  /** What the client has changed in its session. */
  state(): SessionState | undefined;
  /** The upstream has forgotten the session. */
  lost(): void;
}

/**
 * What runs between a legacy client's session and its session with one upstream beside calls: while the client has a
 * notification stream, the upstream's is open too, and what comes on it goes to that client (2025-11-25, "Listening for
 * Messages from the Server").
 */
export class UpstreamChannel implements SessionChannel, LinkChannel, SessionStreamSink {
  readonly #options: UpstreamChannelOptions;
  readonly #questions: UpstreamQuestions;
  readonly #refusals: Refusals;
  #stream: SessionStream | undefined = undefined;
  /** The upstream's stream is there, or never will be. */
  #settled = false;
  /** The client may have missed something, and is told so when its upstream can be heard. */
  #gap = false;
  /** The upstream is held back until the client has read what it was sent. */
  #held = false;
  #closed = false;

  constructor(options: UpstreamChannelOptions) {
    this.#options = options;
    const { upstream, link, headers, live } = options;
    const answer = (text: string) => deliver(upstream.transport, [...link.identity, ...headers], text);
    this.#refusals = new Refusals(answer);
    this.#questions = new UpstreamQuestions({
      live: () => live,
      send: (text) => void this.#notify(text),
      deliver: answer,
    });
    live.join(this);
    this.listening(live.listening);
  }

  /** True once the link is given up. */
  get closed(): boolean {
    return this.#closed;
  }

  get pinned(): boolean {
    return this.#options.live.listening;
  }

  listening(on: boolean): void {
    if (on) this.#stream ??= this.#openStream();
    else this.#stop();
  }

  onMessage(text: string, value: JsonObject): boolean {
    const { upstream, calls, live } = this.#options;
    const { method } = value;
    // The answer to a question of ours: there are none on this stream. Or nothing that JSON-RPC knows.
    if (typeof method !== 'string') return true;
    if ('id' in value) {
      if (!live.listening || !this.#questions.ask(text)) this.#refusals.refuse(text, method);
      return !this.#held;
    }
    switch (method) {
      case 'notifications/cancelled':
        this.#questions.takenBack(text);
        return !this.#held;
      case 'notifications/progress':
        passProgress(calls, upstream, live.id, text, value);
        return true;
      case 'notifications/message':
        return !reachesLevel(value.params, this.#options.state()?.logLevel ?? LEAST_LEVEL) || this.#notify(text);
      default:
        if (!LIST_CHANGED_METHODS.has(method)) return this.#notify(text);
        // Our clients are told when the change is here, and they can see it.
        upstream.changed();
        return true;
    }
  }

  /** What may have been missed is told: the client reads anew what it watches. */
  onOpen(gap: boolean): void {
    this.#options.backoff.reset();
    this.#settle(gap || this.#gap);
  }

  onUnavailable(): void {
    const { log, upstream } = this.#options;
    log.debug('upstream offers no notification stream', { upstream: upstream.transport.address });
    this.#settle(this.#gap);
  }

  /** The upstream may have had news while nobody listened to it. Told when it is listened to. */
  missed(): void {
    if (this.#settled) this.#settle(true);
    else this.#gap = true;
  }

  /** From now on the client hears what there is to hear. */
  #settle(gap: boolean): void {
    this.#settled = true;
    // A client that reads slowly is told when it reads on, once, however often there was something.
    this.#gap = gap && this.#held;
    if (!gap || this.#held) return;
    const { upstream, state } = this.#options;
    for (const { uri, forward } of state()?.subscriptions ?? []) {
      if (forward !== upstream.forward) continue;
      this.#notify(legacyResourceUpdated(uri));
    }
  }

  lost(): void {
    this.#options.lost();
  }

  onSessionLost(): void {
    void this.#lookForSession(this.#stream);
  }

  close(): void {
    this.#closed = true;
    this.#stop();
    this.#questions.withdrawAll();
    this.#options.live.leave(this);
  }

  #openStream(): SessionStream {
    const { upstream, link, headers } = this.#options;
    return new SessionStream(upstream.transport, [...link.identity, ...headers], this);
  }

  /**
   * The upstream says that it does not know the session. Some say so of a stream that they do not offer: whether it is
   * the session that is gone, `ping` tells.
   */
  async #lookForSession(stream: SessionStream | undefined): Promise<void> {
    const { link, backoff, lost } = this.#options;
    let gone = false;
    try {
      await link.client?.request('ping');
      if (this.#stream === stream) this.onUnavailable();
      return;
    } catch (error) {
      gone = error instanceof UpstreamError && error.kind === 'session-lost';
    }
    // Nobody knows: asked again later.
    if (!gone) await delay(backoff.next(), undefined, { ref: false });
    // It was given up meanwhile, or the client has stopped listening.
    if (this.#stream !== stream) return;
    if (gone) lost();
    else this.#stream = this.#openStream();
  }

  #stop(): void {
    if (this.#settled) this.#gap = true;
    this.#settled = false;
    this.#held = false;
    this.#stream?.close();
    this.#stream = undefined;
  }

  #notify(text: string): boolean {
    const { live } = this.#options;
    if (live.notify(text)) return true;
    if (this.#held) return false;
    this.#held = true;
    live.onDrain(() => {
      this.#held = false;
      this.#stream?.resume();
      if (this.#gap && this.#settled) this.#settle(true);
    });
    return false;
  }
}

import type { JsonObject } from '../json/lossless.ts';
import { isJsonObject } from '../json/lossless.ts';
import { memberText } from '../json/scan.ts';
import { reachesLevel } from '../mcp/log-level.ts';
import { METHOD_NOT_FOUND } from '../mcp/protocol.ts';
import type { SessionState } from '../sessions/kept-sessions.ts';
import type { LiveSession, SessionChannel } from '../sessions/live-sessions.ts';
import type { CallsUnderWay } from './calls-under-way.ts';
import { deliver } from './deliver.ts';
import type { LinkChannel, UpstreamLink } from './links.ts';
import { UpstreamQuestions } from './questions.ts';
import type { RelayedCall } from './relayed-call.ts';
import { SessionStream, type SessionStreamSink } from './session-stream.ts';
import type { Upstream } from './upstream.ts';

export interface UpstreamChannelOptions {
  readonly upstream: Upstream;
  readonly link: UpstreamLink;
  /** Headers besides the link's own. */
  readonly headers: readonly string[];
  readonly live: LiveSession;
  readonly calls: CallsUnderWay<RelayedCall>;
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
  #stream: SessionStream | undefined = undefined;

  constructor(options: UpstreamChannelOptions) {
    this.#options = options;
    const { upstream, link, headers, live } = options;
    this.#questions = new UpstreamQuestions({
      live: () => live,
      send: (text) => void live.notify(text),
      deliver: (text) => deliver(upstream.transport, [...link.identity, ...headers], text),
    });
    live.join(this);
    this.listening(live.listening);
  }

  get pinned(): boolean {
    return this.#options.live.listening;
  }

  listening(on: boolean): void {
    const { upstream, link, headers } = this.#options;
    if (on) this.#stream ??= new SessionStream(upstream.transport, [...link.identity, ...headers], this);
    else this.#stop();
  }

  onMessage(text: string, value: JsonObject): boolean {
    const { upstream, calls, live } = this.#options;
    const { method } = value;
    // The answer to a question of ours: there are none on this stream.
    if (method === undefined) return true;
    if ('id' in value) {
      if (!live.listening || !this.#questions.ask(text, value)) this.#refuse(text, method);
      return true;
    }
    switch (method) {
      case 'notifications/tools/list_changed':
      case 'notifications/resources/list_changed':
      case 'notifications/prompts/list_changed':
        // Our clients are told when the change is here, and they can see it.
        upstream.changed();
        return true;
      case 'notifications/cancelled':
        this.#questions.cancelled(text);
        return true;
      case 'notifications/progress': {
        const token = isJsonObject(value.params) ? value.params.progressToken : undefined;
        calls.find((call) => call.reportsTo(upstream, token))?.progressed(text, value);
        return true;
      }
      case 'notifications/message':
        return !this.#wantsLog(value) || this.#notify(text);
      default:
        return this.#notify(text);
    }
  }

  /** What may have been missed is told: the client reads anew what it watches. */
  onOpen(gap: boolean): void {
    if (gap) this.missed();
  }

  /** The upstream may have had news while nobody listened to it. */
  missed(): void {
    const { upstream, state } = this.#options;
    for (const { uri, forward } of state()?.subscriptions ?? []) {
      if (forward !== upstream.forward) continue;
      const params = JSON.stringify({ uri });
      this.#notify(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":${params}}`);
    }
  }

  onSessionLost(): void {
    this.#options.lost();
  }

  close(): void {
    this.#stop();
    this.#questions.withdrawAll();
    this.#options.live.leave(this);
  }

  #stop(): void {
    this.#stream?.close();
    this.#stream = undefined;
  }

  #notify(text: string): boolean {
    const { live } = this.#options;
    if (live.notify(text)) return true;
    live.onDrain(() => this.#stream?.resume());
    return false;
  }

  #wantsLog({ params }: JsonObject): boolean {
    const least = this.#options.state()?.logLevel;
    return least === undefined || reachesLevel(isJsonObject(params) ? params.level : undefined, least);
  }

  #refuse(text: string, method: unknown): void {
    const { upstream, link, headers } = this.#options;
    const answer =
      method === 'ping'
        ? '"result":{}'
        : `"error":{"code":${METHOD_NOT_FOUND},"message":"the client cannot be asked on this connection"}`;
    const refusal = `{"jsonrpc":"2.0","id":${memberText(text, 'id')},${answer}}`;
    deliver(upstream.transport, [...link.identity, ...headers], refusal).catch(() => undefined);
  }
}

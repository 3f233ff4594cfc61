import { legacyResourceUpdated } from '@sluice/protocol/mcp/subscriptions';
import type { DownstreamChannel, DownstreamSession } from '../../downstream.ts';
import type { Upstream } from '../upstream.ts';

/**
 * Sends the notifications of one upstream on the notification stream of a legacy session, with backpressure, and notifies
 * the client of the resources that it is subscribed to there after updates may have been missed.
 */
export class ResourceUpdates {
  readonly channel: DownstreamChannel;
  readonly #upstream: Upstream;
  readonly #session: DownstreamSession;
  readonly #onDrain: () => void;
  /** Uris of updates to send when the client reads again, once each. */
  readonly #pending = new Set<string>();
  #blocked = false;

  /** `onDrain` is called when the client reads again after `send` returned false. */
  constructor(upstream: Upstream, session: DownstreamSession, onDrain: () => void) {
    this.channel = session.channel();
    this.#upstream = upstream;
    this.#session = session;
    this.#onDrain = onDrain;
  }

  /** True while the client reads too slowly. */
  get isBlocked(): boolean {
    return this.#blocked;
  }

  /** Uris that the client is subscribed to at the upstream. */
  get subscribed(): string[] {
    const { forward } = this.#upstream;
    return this.#session.subscriptions.flatMap((one) => (one.forward === forward ? [one.uri] : []));
  }

  /** Sends a notification of the upstream. False: the client reads slowly, wait for `onDrain`. */
  send(text: string): boolean {
    if (this.channel.send(text)) return true;
    if (this.#blocked) return false;
    this.#blocked = true;
    this.channel.onDrain(() => this.#flush());
    return false;
  }

  /** Sends an update for each subscribed resource, or each of `uris`: it may have changed. */
  notifyMissed(uris?: ReadonlySet<string>): void {
    for (const uri of this.subscribed) if (uris?.has(uri) ?? true) this.#notify(uri);
  }

  /** Drops pending updates: the client no longer listens. */
  clear(): void {
    this.#pending.clear();
    this.#blocked = false;
  }

  #notify(uri: string): void {
    if (this.#blocked) this.#pending.add(uri);
    else this.send(legacyResourceUpdated(uri));
  }

  #flush(): void {
    this.#blocked = false;
    const uris = [...this.#pending];
    this.#pending.clear();
    for (const uri of uris) this.#notify(uri);
    if (!this.#blocked) this.#onDrain();
  }
}

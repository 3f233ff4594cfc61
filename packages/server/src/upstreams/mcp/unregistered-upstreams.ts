import type { Era } from '@sluice/protocol/mcp/constants';
import type { ClientOptions } from './client.ts';
import { EraCache } from './era-detection.ts';
import { Upstream } from './upstream.ts';
import { withTimeout } from './with-timeout.ts';

/** Nothing follows from how calls to them end: nobody looks after them. */
const NOBODY = { failed() {}, succeeded() {}, changed() {} };

/** A call waits so long for its server to say what it speaks; asking goes on behind it. */
const WAIT_MS = 2_000;
/** A server that did not say is left alone for so long. */
const ASK_AGAIN_MS = 60_000;

interface Addressed {
  readonly upstream: Upstream;
  readonly eras: EraCache;
  usedAt: number;
  /** While it is asked which eras it speaks. */
  asking: Promise<void> | undefined;
  /** One that did not say is not asked again before this, in milliseconds of `performance.now()`. */
  askAgainAt: number;
}

/** The upstreams that hand-made tools name by address and that no forward holds. */
export class UnregisteredUpstreams {
  readonly #upstreams = new Map<string, Addressed>();
  readonly #clientInfo: ClientOptions['clientInfo'];
  readonly #legacyWanted: () => boolean;

  /** `clientInfo`: who we are, towards them. `legacyWanted`: whether legacy clients have been there. */
  constructor(clientInfo: ClientOptions['clientInfo'], legacyWanted: () => boolean) {
    this.#clientInfo = clientInfo;
    this.#legacyWanted = legacyWanted;
  }

  /** The upstream at an http or https address, made when there is none. */
  at(address: string): Upstream {
    return this.#find(address).upstream;
  }

  /**
   * Asks the upstream at an address which eras it speaks, for nobody has discovered it: a call in an era that it does not
   * speak could only fail. Undefined when that is known, which is nearly always; else a promise that never rejects.
   */
  asking(address: string): Promise<void> | undefined {
    const found = this.#find(address);
    const known = found.eras.dueInMs > 0 && (found.eras.askedLegacy || !this.#legacyWanted());
    if (known || performance.now() < found.askAgainAt) return undefined;
    found.asking ??= this.#ask(found);
    // What it spoke an hour ago will do until it has answered again.
    return found.upstream.eras && found.eras.dueInMs === 0 ? undefined : withTimeout(WAIT_MS, found.asking);
  }

  /** Ends what nobody used for this long, and forgets the addresses that no tool has been called at meanwhile. */
  closeIdle(idleMs: number, now: number): void {
    for (const [address, { upstream, usedAt }] of this.#upstreams) {
      upstream.links.closeIdle(idleMs, now);
      if (!upstream.links.idle || now - usedAt < idleMs) continue;
      this.#upstreams.delete(address);
      upstream.close().catch(() => undefined);
    }
  }

  *[Symbol.iterator](): Generator<Upstream> {
    for (const { upstream } of this.#upstreams.values()) yield upstream;
  }

  #find(address: string): Addressed {
    let known = this.#upstreams.get(address);
    if (!known) {
      const upstream = new Upstream(address, NOBODY);
      const options = { transport: upstream.transport, capabilities: {}, clientInfo: this.#clientInfo };
      const eras = new EraCache(options, this.#legacyWanted);
      known = { upstream, eras, usedAt: 0, asking: undefined, askAgainAt: 0 };
      this.#upstreams.set(address, known);
    }
    known.usedAt = performance.now();
    return known;
  }

  async #ask(found: Addressed): Promise<void> {
    try {
      const { legacy, modern } = await found.eras.probe();
      const eras = new Set<Era>();
      if (legacy) eras.add('legacy');
      if (modern) eras.add('modern');
      found.upstream.speaks(eras);
      for (const client of [legacy, modern]) client?.close().catch(() => undefined);
    } catch {
      // The call that waits for this meets the same, and says so; or it is served all the same.
      found.askAgainAt = performance.now() + ASK_AGAIN_MS;
    } finally {
      found.asking = undefined;
    }
  }
}

import { Upstream } from './upstream.ts';

/** Nothing follows from how calls to them end: nobody looks after them. */
const NOBODY = { failed() {}, succeeded() {}, changed() {} };

/** The upstreams that hand-made tools name by address and that no forward holds. */
export class AddressedUpstreams {
  readonly #upstreams = new Map<string, { readonly upstream: Upstream; usedAt: number }>();

  /** The upstream at an http or https address, made when there is none. */
  at(address: string): Upstream {
    let known = this.#upstreams.get(address);
    if (!known) {
      known = { upstream: new Upstream(address, NOBODY), usedAt: 0 };
      this.#upstreams.set(address, known);
    }
    known.usedAt = performance.now();
    return known.upstream;
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
}

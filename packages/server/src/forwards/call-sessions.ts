import { CallChannel } from './call-channel.ts';
import type { CallUnderWay } from './call-under-way.ts';
import type { CallsUnderWay } from './calls-under-way.ts';
import type { LinkOwner, UpstreamLink } from './links.ts';
import type { Upstream } from './upstream.ts';
import { within } from './within.ts';

/** A session's own stream is waited for so long, in milliseconds: some servers only begin it with a first message. */
const STREAM_MS = 500;

/**
 * Sessions with legacy upstreams for the calls of modern clients that can be asked something: each call has one for
 * itself, so that whatever the upstream asks in it is asked by that call, on whichever stream it comes. When the call is
 * over, the next one of an equal client has it: calls that follow on each other share a session.
 */
export class CallSessions {
  readonly #calls: CallsUnderWay<CallUnderWay>;
  readonly #links = new WeakMap<Upstream, Map<string, UpstreamLink[]>>();
  #opened = 0;

  constructor(calls: CallsUnderWay<CallUnderWay>) {
    this.#calls = calls;
  }

  /** A session that no call has, of owners with this key. Rejects with `UpstreamError`. */
  take(upstream: Upstream, owner: LinkOwner): UpstreamLink | Promise<UpstreamLink> {
    const free = this.#links
      .get(upstream)
      ?.get(owner.key)
      ?.find(({ taken, active }) => !taken && active === 0);
    if (free) {
      free.taken = true;
      return free;
    }
    const key = `${owner.key} ${++this.#opened}`;
    return upstream.links.open({ ...owner, key, opened: (link) => this.#open(upstream, owner, link) });
  }

  async #open(upstream: Upstream, owner: LinkOwner, link: UpstreamLink): Promise<void> {
    link.taken = true;
    const channel = new CallChannel(upstream, link, owner.headers, this.#calls, () =>
      this.#drop(upstream, owner, link),
    );
    link.channel = channel;
    this.#keep(upstream, owner, link);
    // What the upstream asks before its stream is there would be lost.
    await within(STREAM_MS, channel.ready);
  }

  #keep(upstream: Upstream, { key }: LinkOwner, link: UpstreamLink): void {
    const owners = this.#links.get(upstream) ?? new Map<string, UpstreamLink[]>();
    this.#links.set(upstream, owners);
    const links = owners.get(key) ?? [];
    owners.set(key, links);
    links.push(link);
  }

  #drop(upstream: Upstream, { key }: LinkOwner, link: UpstreamLink): void {
    const owners = this.#links.get(upstream);
    const left = owners?.get(key)?.filter((other) => other !== link) ?? [];
    if (left.length > 0) owners?.set(key, left);
    else owners?.delete(key);
  }
}

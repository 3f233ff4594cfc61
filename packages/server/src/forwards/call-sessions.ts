import { CallChannel } from './call-channel.ts';
import type { CallUnderWay } from './call-under-way.ts';
import type { CallsUnderWay } from './calls-under-way.ts';
import type { LinkOwner, UpstreamLink } from './links.ts';
import type { Upstream } from './upstream.ts';
import { within } from './within.ts';

/** A session's own stream is waited for so long, in milliseconds: some servers only begin it with a first message. */
const STREAM_MS = 500;
/** Sessions with one upstream that wait for a call; of more, the oldest are ended. */
const MAX_IDLE = 32;

/**
 * Sessions with legacy upstreams for the calls of modern clients that can be asked something: each call has one for
 * itself, so that whatever the upstream asks in it is asked by that call, on whichever stream it comes. When the call is
 * over, the next one of an equal client has it: calls that follow on each other share a session.
 */
export class CallSessions {
  readonly #calls: CallsUnderWay<CallUnderWay>;
  /** Of each upstream those that are open, the latest last. */
  readonly #open = new WeakMap<Upstream, CallSession[]>();
  #opened = 0;

  constructor(calls: CallsUnderWay<CallUnderWay>) {
    this.#calls = calls;
  }

  /** A session that no call has, of owners with this key. Rejects with `UpstreamError`. */
  take(upstream: Upstream, owner: LinkOwner): UpstreamLink | Promise<UpstreamLink> {
    const free = this.#open.get(upstream)?.find(({ key, link }) => key === owner.key && isFree(link));
    if (free) {
      free.link.taken = true;
      return free.link;
    }
    const key = `${owner.key} ${++this.#opened}`;
    return upstream.links.open({ ...owner, key, opened: (link) => this.#begin(upstream, owner, link) });
  }

  async #begin(upstream: Upstream, { key, headers }: LinkOwner, link: UpstreamLink): Promise<void> {
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
    await within(STREAM_MS, channel.ready);
  }
}

interface CallSession {
  /** Of owners who are equal to the upstream. */
  readonly key: string;
  readonly link: UpstreamLink;
}

function isFree({ taken, active }: UpstreamLink): boolean {
  return !taken && active === 0;
}

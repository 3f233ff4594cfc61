import { LIST_CHANGED } from '@sluice/protocol/mcp/constants';
import type { Kind } from '../registry/entries.ts';
import type { Namespace } from '../registry/names.ts';
import type { LiveSession, SessionChannel } from '../sessions/live-sessions.ts';
import type { NoticeListener, Notices } from './notices.ts';

/**
 * Tells a legacy session's notification stream that lists of its namespace have changed, for as long as the client
 * listens. A client that reads slowly is told once of what changed meanwhile.
 */
export class SessionNotices implements SessionChannel, NoticeListener {
  readonly #live: LiveSession;
  readonly #unsubscribe: () => void;
  readonly #untold = new Set<Kind>();
  #blocked = false;

  constructor(live: LiveSession, notices: Notices, namespace: Namespace) {
    this.#live = live;
    this.#unsubscribe = notices.subscribe(namespace, this);
    live.join(this);
  }

  listening(on: boolean): void {
    if (on) return;
    this.#unsubscribe();
    this.#live.leave(this);
  }

  onChanged(kinds: ReadonlySet<Kind>): void {
    for (const kind of kinds) this.#untold.add(kind);
    if (!this.#blocked) this.#tell();
  }

  onGone(): void {
    this.#live.end();
  }

  #tell(): void {
    for (const kind of this.#untold) {
      if (!this.#live.notify(`{"jsonrpc":"2.0","method":"${LIST_CHANGED[kind]}"}`)) this.#blocked = true;
    }
    this.#untold.clear();
    if (!this.#blocked) return;
    this.#live.onDrain(() => {
      this.#blocked = false;
      this.#tell();
    });
  }
}

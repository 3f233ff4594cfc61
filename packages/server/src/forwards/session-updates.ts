import { legacyResourceUpdated } from '@sluice/protocol/mcp/subscriptions';
import type { LiveSession } from '../sessions/live-sessions.ts';

/** Tells a legacy session's notification stream of updated resources, as fast as the client reads. */
export class SessionUpdates {
  readonly #live: LiveSession;
  readonly #drained: () => void;
  /** What the client is to be told of once it reads on, once each. */
  readonly #untold = new Set<string>();
  #blocked = false;

  /** `drained` is called when the client reads on after {@link SessionUpdates.pass} returned false. */
  constructor(live: LiveSession, drained: () => void) {
    this.#live = live;
    this.#drained = drained;
  }

  /** Passes on an upstream's notification. False: the client reads slowly, send no more until it reads on. */
  pass(text: string): boolean {
    if (this.#live.notify(text)) return true;
    if (this.#blocked) return false;
    this.#blocked = true;
    this.#live.onDrain(() => this.#goOn());
    return false;
  }

  /** Tells that this may have changed. */
  tell(uri: string): void {
    if (this.#blocked) this.#untold.add(uri);
    else this.pass(legacyResourceUpdated(uri));
  }

  /** Leaves untold what is: nobody reads any more. */
  clear(): void {
    this.#untold.clear();
    this.#blocked = false;
  }

  #goOn(): void {
    this.#blocked = false;
    const untold = [...this.#untold];
    this.#untold.clear();
    for (const uri of untold) this.tell(uri);
    if (!this.#blocked) this.#drained();
  }
}

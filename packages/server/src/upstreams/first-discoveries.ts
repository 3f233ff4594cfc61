/** Time for which requests wait for the first discovery of a forward: `SERVICE_DISCOVERY_WAIT_MS`. */
export const DISCOVERY_WAIT_MS = 5_000;

interface FirstDiscovery {
  /** Resolved when it has ended, or has taken so long that nobody waits any more. */
  readonly over: PromiseWithResolvers<void>;
  readonly timer: NodeJS.Timeout;
}

/**
 * The forwards that were never discovered, whose entries are unknown: requests wait for the first discovery of each, until it
 * has ended, with whatever outcome, or for a certain time after its beginning.
 */
export class FirstDiscoveries {
  /** Number of forwards that requests wait for: 0 nearly always, which is all that a request has to know. */
  pending = 0;
  readonly #waitMs: number;
  readonly #namespaceOf: (forward: string) => string | undefined;
  readonly #discoveries = new Map<string, FirstDiscovery>();
  /** All forwards without a catalog. */
  readonly #unknown = new Set<string>();

  /** `namespaceOf` returns the namespace of a registered forward. */
  constructor(waitMs: number, namespaceOf: (forward: string) => string | undefined) {
    this.#waitMs = waitMs;
    this.#namespaceOf = namespaceOf;
  }

  /** Adds a forward without a catalog; `isAwaited`: whether its discovery is about to begin. */
  add(forward: string, isAwaited: boolean): void {
    this.#stopWaiting(forward);
    this.#unknown.add(forward);
    if (!isAwaited || this.#waitMs === 0) return;
    const timer = setTimeout(() => this.#stopWaiting(forward), this.#waitMs).unref();
    this.#discoveries.set(forward, { over: Promise.withResolvers<void>(), timer });
    this.pending++;
  }

  /** Called when its discovery begins, if that was not when it was added. */
  begin(forward: string): void {
    this.#discoveries.get(forward)?.timer.refresh();
  }

  /** Called when its discovery has succeeded or failed, and with `isDiscovered` when it is no longer registered. */
  end(forward: string, isDiscovered: boolean): void {
    if (isDiscovered) this.#unknown.delete(forward);
    this.#stopWaiting(forward);
  }

  /** Resolves when nothing of the namespace is pending; undefined if nothing is. */
  all(namespace: string): Promise<unknown> | undefined {
    const pending = this.#of(namespace);
    return pending.length === 0 ? undefined : Promise.all(pending);
  }

  /** Resolves when one that is pending in the namespace is over; undefined if none is. */
  next(namespace: string): Promise<unknown> | undefined {
    const pending = this.#of(namespace);
    return pending.length === 0 ? undefined : Promise.race(pending);
  }

  /** Whether the entries of a forward of the namespace are unknown. */
  isIncomplete(namespace: string): boolean {
    if (this.#unknown.size === 0) return false;
    for (const forward of this.#unknown) if (this.#namespaceOf(forward) === namespace) return true;
    return false;
  }

  close(): void {
    for (const forward of [...this.#discoveries.keys()]) this.#stopWaiting(forward);
  }

  #of(namespace: string): Promise<void>[] {
    if (this.pending === 0) return [];
    const found: Promise<void>[] = [];
    for (const [forward, { over }] of this.#discoveries) {
      if (this.#namespaceOf(forward) === namespace) found.push(over.promise);
    }
    return found;
  }

  #stopWaiting(forward: string): void {
    const discovery = this.#discoveries.get(forward);
    if (!discovery) return;
    clearTimeout(discovery.timer);
    this.#discoveries.delete(forward);
    this.pending--;
    discovery.over.resolve();
  }
}

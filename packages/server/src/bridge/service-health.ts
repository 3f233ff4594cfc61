import { type ServiceHealth, serviceAddress, serviceKey } from '@sluice/contract';
import type { ServiceEntry } from '../registry/entries.ts';
import type { Registry } from '../registry/registry.ts';
import type { Services } from '../registry/services.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import { type Finding, probedId } from './health-probe.ts';

/** What {@link HealthOfServices} works with. */
export interface HealthOptions {
  readonly registry: Pick<Registry, 'current' | 'onChange'>;
  /** Asks an entry's service once; must not reject. */
  readonly probe: (entry: ServiceEntry, signal: AbortSignal) => Promise<Finding>;
  /** Milliseconds between probes of one entry; 0: only at registration and at start. */
  readonly intervalMs: number;
  readonly log: TargetLogger;
  /** Probes under way at a time (default 8): as many services that do not answer hold up the others. */
  readonly probesAtOnce?: number;
}

interface Watched {
  readonly entry: ServiceEntry;
  health: ServiceHealth;
  /** Ends the probe that is under way. */
  probing: AbortController | undefined;
}

/**
 * How the registered capability services are (decisions 3, 4.10): each is probed when it is registered, when the process
 * starts, and then every so often. This is for people to see. It is kept in memory, and nothing is routed by it.
 */
export class HealthOfServices {
  readonly #options: HealthOptions;
  readonly #probesAtOnce: number;
  /** By `serviceId`. */
  readonly #watched = new Map<string, Watched>();
  /** Those that wait for their probe, in their order. */
  readonly #waiting = new Set<Watched>();
  #underWay = 0;
  #seen: Services | undefined;
  #unsubscribe: () => void = () => {};
  #timer: NodeJS.Timeout | undefined;

  constructor(options: HealthOptions) {
    this.#options = options;
    this.#probesAtOnce = options.probesAtOnce ?? 8;
  }

  /** What the last probe of the entry said; `pending` before the first. */
  of(entry: ServiceEntry): ServiceHealth {
    const known = this.#watched.get(serviceKey(entry));
    return known && asksTheSame(known.entry, entry) ? known.health : 'pending';
  }

  /** Begins to probe, what is registered and what will be. */
  start(): void {
    const { registry, intervalMs } = this.#options;
    this.#unsubscribe = registry.onChange(() => this.#follow());
    this.#follow();
    if (intervalMs > 0) this.#timer = setInterval(() => this.#queue(this.#watched.values()), intervalMs).unref();
  }

  /** Ends the probes under way; no further one begins. */
  close(): void {
    this.#unsubscribe();
    clearInterval(this.#timer);
    for (const watched of this.#watched.values()) this.#drop(watched);
    this.#watched.clear();
  }

  /** Takes over what the registry has now. Every entry that is new, or was put anew, is probed. */
  #follow(): void {
    const { services } = this.#options.registry.current;
    if (services === this.#seen) return;
    this.#seen = services;
    const registered = new Map(services.all.map((entry) => [serviceKey(entry), entry]));
    for (const [id, watched] of this.#watched) {
      if (registered.has(id)) continue;
      this.#drop(watched);
      this.#watched.delete(id);
    }
    const added: Watched[] = [];
    for (const [id, entry] of registered) {
      const known = this.#watched.get(id);
      if (known?.entry === entry) continue;
      if (known) this.#drop(known);
      const watched: Watched = { entry, health: this.of(entry), probing: undefined };
      this.#watched.set(id, watched);
      added.push(watched);
    }
    this.#queue(added);
  }

  #drop(watched: Watched): void {
    this.#waiting.delete(watched);
    watched.probing?.abort();
  }

  #queue(due: Iterable<Watched>): void {
    // The last round may not be over: a probe that waits or is under way is this round's too.
    for (const watched of due) if (!watched.probing) this.#waiting.add(watched);
    for (const watched of this.#waiting) {
      if (this.#underWay >= this.#probesAtOnce) return;
      this.#waiting.delete(watched);
      void this.#probe(watched);
    }
  }

  async #probe(watched: Watched): Promise<void> {
    const ending = new AbortController();
    watched.probing = ending;
    this.#underWay++;
    const finding = await this.#options.probe(watched.entry, ending.signal);
    this.#underWay--;
    watched.probing = undefined;
    // What was removed or replaced meanwhile is nobody's any more.
    if (!ending.signal.aborted) this.#found(watched, finding);
    this.#queue([]);
  }

  #found(watched: Watched, { health, reason }: Finding): void {
    const { log } = this.#options;
    const { entry, health: before } = watched;
    if (health === before) return;
    watched.health = health;
    const fields = { service: entry.name, service_type: entry.serviceType, address: serviceAddress(entry), before };
    if (health === 'healthy') log.info('capability service is healthy', fields);
    else log.warn(`capability service is ${health}`, { ...fields, reason });
  }
}

/** Whether what one entry's probe says holds for the other: the same place is asked for the same id. */
function asksTheSame(a: ServiceEntry, b: ServiceEntry): boolean {
  return a.host === b.host && a.port === b.port && probedId(a) === probedId(b);
}

import { type Client, status } from '@grpc/grpc-js';
import { type ServiceHealth, serviceAddress, serviceKey } from '@sluice/contract';
import { quoted } from '../../http/client/errors.ts';
import type { ServiceEntry } from '../../registry/entries.ts';
import type { Registry } from '../../registry/registry.ts';
import type { Services } from '../../registry/snapshot.ts';
import type { TargetLogger } from '../../telemetry/log.ts';
import type { Protocols } from './channel.ts';
import { serviceRequestId } from './tools.ts';
import { type CallSettings, callUnary, detailsOf, isStatusError, statusName, statusOf } from './unary.ts';

/** What a probe found. `reason` says more where the service is not well. */
export interface Finding {
  readonly health: Exclude<ServiceHealth, 'pending'>;
  readonly reason?: string;
}

/** Statuses of calls that nobody answered. */
const UNANSWERED: ReadonlySet<status | undefined> = new Set([
  status.UNAVAILABLE,
  status.DEADLINE_EXCEEDED,
  status.CANCELLED,
  undefined,
]);

/** What a service is asked for by (decisions 4.10). */
export function probedId({ id, name }: ServiceEntry): string {
  return id ?? name;
}

/**
 * Asks a capability service once how it is (decisions 4.10): by `Probe`, and by `GetStatus` where it does not know that.
 * One that knows neither is healthy, since it has answered; one that fails otherwise has answered too, and is not. One that
 * does not answer is not asked again before the next probe: as long as it is, it holds up those of others. Never rejects.
 */
export async function probeHealth(
  client: Client,
  { healthProbe }: Protocols,
  entry: ServiceEntry,
  signal: AbortSignal,
  { timeoutMs }: Pick<CallSettings, 'timeoutMs'>,
): Promise<Finding> {
  const once = { timeoutMs, maxRetries: 0, retryDelayMs: 0 };
  const request = { id: probedId(entry).toWellFormed() };
  for (const method of [healthProbe.Probe, healthProbe.GetStatus]) {
    try {
      const call = { requestId: serviceRequestId(undefined), signal };
      const { status: found } = await callUnary(client, method, request, call, once);
      return found === 'STARTED' ? { health: 'healthy' } : { health: 'unhealthy', reason: `its status is ${found}` };
    } catch (error) {
      const code = statusOf(error);
      if (code !== status.UNIMPLEMENTED) {
        return { health: UNANSWERED.has(code) ? 'down' : 'unhealthy', reason: reasonOf(error) };
      }
    }
  }
  return { health: 'healthy' };
}

function reasonOf(error: unknown): string {
  if (isStatusError(error)) return `${statusName(error.code)}: ${quoted(detailsOf(error))}`;
  return error instanceof Error ? error.message : String(error);
}

/** What {@link ServiceHealthMonitor} works with. */
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
export class ServiceHealthMonitor {
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

import { type ServiceHealth, serviceAddress, serviceKey } from '@sluice/contract';
import { Emitter } from '@sluice/protocol/emitter';
import { quoted } from '../../http/client/errors.ts';
import type { ServiceEntry } from '../../registry/entries.ts';
import type { Registry } from '../../registry/registry.ts';
import type { Services } from '../../registry/snapshot.ts';
import type { TargetLogger } from '../../telemetry/log.ts';
import type { CallSettings } from './grpc-client.ts';
import type { Grpc } from './library.ts';
import { isStatusError, status, statusCode, statusDetails, statusName } from './status.ts';
import { serviceRequestId } from './tool-operation.ts';

/** Result of a probe; `reason`: why the service is not healthy. */
export interface ProbeResult {
  readonly health: Exclude<ServiceHealth, 'pending'>;
  readonly reason?: string;
}

/** Statuses of calls without a response. */
const NO_RESPONSE: ReadonlySet<number | undefined> = new Set([
  status.UNAVAILABLE,
  status.DEADLINE_EXCEEDED,
  status.CANCELLED,
  undefined,
]);

/** Id in probe requests. */
function probeId({ id, name }: ServiceEntry): string {
  return id ?? name;
}

/**
 * Probes a capability service once: with `Probe`, and with `GetStatus` if that is not implemented. A service that implements
 * neither is healthy, since it has responded; one that fails otherwise is unhealthy. Not retried, since an unanswered probe
 * delays those of other services. Never rejects.
 */
export async function probeHealth(
  { channels, protocols, callUnary }: Pick<Grpc, 'channels' | 'protocols' | 'callUnary'>,
  entry: ServiceEntry,
  signal: AbortSignal,
  { timeoutMs }: Pick<CallSettings, 'timeoutMs'>,
): Promise<ProbeResult> {
  const settings = { timeoutMs, maxRetries: 0, retryDelayMs: 0 };
  const request = { id: probeId(entry).toWellFormed() };
  const client = channels.get(serviceAddress(entry));
  const { healthProbe } = protocols;
  for (const method of [healthProbe.Probe, healthProbe.GetStatus]) {
    try {
      const call = { requestId: serviceRequestId(undefined), signal };
      const { status: found } = await callUnary(client, method, request, call, settings);
      return found === 'STARTED' ? { health: 'healthy' } : { health: 'unhealthy', reason: `status ${found}` };
    } catch (error) {
      const code = statusCode(error);
      if (code !== status.UNIMPLEMENTED) {
        return { health: NO_RESPONSE.has(code) ? 'down' : 'unhealthy', reason: describeFailure(error) };
      }
    }
  }
  return { health: 'healthy' };
}

function describeFailure(error: unknown): string {
  if (isStatusError(error)) return `${statusName(error.code)}: ${quoted(statusDetails(error))}`;
  return error instanceof Error ? error.message : String(error);
}

export interface ServiceHealthOptions {
  readonly registry: Pick<Registry, 'current' | 'committed'>;
  /** Probes the service of an entry once; must not reject. */
  readonly probe: (entry: ServiceEntry, signal: AbortSignal) => Promise<ProbeResult>;
  /** Milliseconds between probes of one entry; 0 to probe only at registration and at start. */
  readonly intervalMs: number;
  readonly log: TargetLogger;
  /** Default 8: as many unresponsive services delay the probes of others. */
  readonly maxConcurrentProbes?: number;
}

/** A service whose health has changed. */
export interface ServiceHealthChange {
  readonly entry: ServiceEntry;
  readonly result: ProbeResult;
}

interface MonitoredService {
  readonly entry: ServiceEntry;
  health: ServiceHealth;
  /** Cancels the probe in progress. */
  probing: AbortController | undefined;
}

/**
 * Health of the registered capability services: each is probed at registration, at the start of the process, and then
 * periodically. For display only: routing does not depend on it.
 */
export class ServiceHealthMonitor {
  /** The health of a service has changed. */
  readonly changed = new Emitter<ServiceHealthChange>();
  readonly #options: ServiceHealthOptions;
  /** By `serviceId`. */
  readonly #services = new Map<string, MonitoredService>();
  /** Waiting for their probe, in order. */
  readonly #waiting = new Set<MonitoredService>();
  #inFlight = 0;
  #seen: Services | undefined;
  #unsubscribe: () => void = () => {};
  #timer: NodeJS.Timeout | undefined;

  constructor(options: ServiceHealthOptions) {
    this.#options = options;
  }

  /** Result of the last probe of the entry; `pending` before the first. */
  get(entry: ServiceEntry): ServiceHealth {
    const known = this.#services.get(serviceKey(entry));
    return known && hasSameTarget(known.entry, entry) ? known.health : 'pending';
  }

  /** Starts probing registered services, now and in future. */
  start(): void {
    const { registry, intervalMs } = this.#options;
    this.#unsubscribe = registry.committed.subscribe(() => this.#onRegistryChange());
    this.#onRegistryChange();
    if (intervalMs > 0) this.#timer = setInterval(() => this.#queue(this.#services.values()), intervalMs).unref();
  }

  /** Cancels the probes in progress and stops. */
  close(): void {
    this.#unsubscribe();
    clearInterval(this.#timer);
    for (const service of this.#services.values()) this.#cancel(service);
    this.#services.clear();
  }

  /** Probes every entry that was added or replaced. */
  #onRegistryChange(): void {
    const { services } = this.#options.registry.current;
    if (services === this.#seen) return;
    this.#seen = services;
    const registered = new Map(services.all.map((entry) => [serviceKey(entry), entry]));
    for (const [id, service] of this.#services) {
      if (registered.has(id)) continue;
      this.#cancel(service);
      this.#services.delete(id);
    }
    const added: MonitoredService[] = [];
    for (const [id, entry] of registered) {
      const known = this.#services.get(id);
      if (known?.entry === entry) continue;
      if (known) this.#cancel(known);
      const service: MonitoredService = { entry, health: this.get(entry), probing: undefined };
      this.#services.set(id, service);
      added.push(service);
    }
    this.#queue(added);
  }

  #cancel(service: MonitoredService): void {
    this.#waiting.delete(service);
    service.probing?.abort();
  }

  #queue(due: Iterable<MonitoredService>): void {
    const { maxConcurrentProbes = 8 } = this.#options;
    // A pending probe of the last round serves this one too.
    for (const service of due) if (!service.probing) this.#waiting.add(service);
    for (const service of this.#waiting) {
      if (this.#inFlight >= maxConcurrentProbes) return;
      this.#waiting.delete(service);
      void this.#probe(service);
    }
  }

  async #probe(service: MonitoredService): Promise<void> {
    const canceled = new AbortController();
    service.probing = canceled;
    this.#inFlight++;
    const result = await this.#options.probe(service.entry, canceled.signal);
    this.#inFlight--;
    service.probing = undefined;
    // The entry may have been removed or replaced meanwhile.
    if (!canceled.signal.aborted) this.#update(service, result);
    this.#queue([]);
  }

  #update(service: MonitoredService, { health, reason }: ProbeResult): void {
    const { log } = this.#options;
    const { entry, health: before } = service;
    if (health === before) return;
    service.health = health;
    this.changed.emit({ entry, result: { health, ...(reason !== undefined && { reason }) } });
    const fields = { service: entry.name, service_type: entry.serviceType, address: serviceAddress(entry), before };
    if (health === 'healthy') log.info('capability service is healthy', fields);
    else log.warn(`capability service is ${health}`, { ...fields, reason });
  }
}

/** Whether a probe of one entry applies to the other: same address and id. */
function hasSameTarget(a: ServiceEntry, b: ServiceEntry): boolean {
  return a.host === b.host && a.port === b.port && probeId(a) === probeId(b);
}

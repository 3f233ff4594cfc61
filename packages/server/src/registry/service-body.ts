import { type Service, type ServiceHealth, serviceAddress } from '@sluice/contract';
import type { ServiceEntry } from './entries.ts';

/**
 * A service entry as the management API answers it (decisions 2.8). `health` is what the last probe said, which is
 * known to the running process alone (decisions 3).
 */
export function serviceBody(entry: ServiceEntry, health: ServiceHealth): Service {
  return { ...serviceMembers(entry), health };
}

/** What the management API and `registry.json` both show of an entry, in this order. */
export function serviceMembers(entry: ServiceEntry): Omit<Service, 'health'> {
  const { name, host, port, serviceType, serviceSubType, languageName, labels, id } = entry;
  return {
    name,
    host,
    port,
    address: serviceAddress(entry),
    serviceType,
    ...(serviceSubType !== undefined && { serviceSubType }),
    ...(languageName !== undefined && { languageName }),
    labels,
    ...(id !== undefined && { id }),
  };
}

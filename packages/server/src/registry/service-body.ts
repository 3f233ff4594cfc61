import type { Service, ServiceHealth } from '@sluice/contract';
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
    // The colons of an IPv6 address are told from the one before the port by brackets.
    address: host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`,
    serviceType,
    ...(serviceSubType !== undefined && { serviceSubType }),
    ...(languageName !== undefined && { languageName }),
    labels,
    ...(id !== undefined && { id }),
  };
}

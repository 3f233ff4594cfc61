import { type ServiceInput, serviceKey } from '@sluice/contract';
import type { Draft } from '../draft.ts';
import type { ServiceEntry } from '../entries.ts';
import type { Snapshot } from '../snapshot.ts';
import { RegistryError } from './error.ts';

/**
 * Registers a capability service. One of the same name, type, engine and language is replaced, and keeps its place in
 * the order of registration (decisions 2.2, 4.1); `created` says whether there was none.
 */
export function registerService(draft: Draft, input: ServiceInput): { entry: ServiceEntry; created: boolean } {
  const id = serviceKey(input);
  const known = draft.servicesNamed(input.name).find((other) => serviceKey(other) === id);
  const entry: ServiceEntry = {
    name: input.name,
    host: input.host,
    port: input.port,
    serviceType: input.serviceType,
    serviceSubType: input.serviceSubType,
    languageName: input.languageName,
    labels: input.labels ?? {},
    id: input.id,
    source: known?.source ?? draft.nextSource(),
    unknown: known?.unknown,
  };
  draft.putService(entry);
  return { entry, created: known === undefined };
}

/**
 * Removes all services of the name, or those of one type, which may be any text; returns how many (decisions 4.2).
 * RegistryError NOT_FOUND when there are none.
 */
export function removeServices(draft: Draft, name: string, serviceType?: string): number {
  const found = foundOf(name, draft.servicesNamed(name), serviceType);
  draft.removeServices(name, found);
  return found.length;
}

/**
 * The services of the name, or those of one type, in order of registration: the first is the one that is used
 * (decisions 4.2, 4.10). RegistryError NOT_FOUND when there are none.
 */
export function findServices(snapshot: Snapshot, name: string, serviceType?: string): Found {
  return foundOf(name, snapshot.services.named(name), serviceType);
}

/** At least one. */
type Found = readonly [ServiceEntry, ...ServiceEntry[]];

function foundOf(name: string, named: readonly ServiceEntry[], serviceType: string | undefined): Found {
  const [first, ...others] =
    serviceType === undefined ? named : named.filter((entry) => entry.serviceType === serviceType);
  if (!first) throw new RegistryError('NOT_FOUND', `service not found: ${name}`);
  return [first, ...others];
}

import { type ServiceInput, serviceAddress, serviceKey } from '@sluice/contract';
import type { JsonObject } from '@sluice/protocol/json/parse';
import type { CurrentService, CurrentState } from './actual.ts';
import type { DesiredState } from './desired.ts';
import { diffMembers, initialMembers, type PlannedSteps, type Step } from './step.ts';

/** What to do with capability services. A POST replaces one of the same key (decisions 4.1). */
export function planServices(
  { services: wanted }: DesiredState,
  { services: actual }: CurrentState,
  prune: boolean,
): PlannedSteps {
  const known = new Map(actual.map((entry) => [serviceKey(entry), entry]));
  const upserts = wanted.flatMap(({ entry }): Step[] => {
    const before = known.get(serviceKey(entry));
    const { name } = entry;
    if (!before) {
      return [
        { kind: 'service', action: 'create', name, entry, changes: initialMembers(serviceMembers(entry)), notes: [] },
      ];
    }
    const changes = diffMembers(serviceMembers(before), serviceMembers(entry));
    return changes.length === 0 ? [] : [{ kind: 'service', action: 'update', name, entry, changes, notes: [] }];
  });
  if (!prune) return { upserts, deletions: [] };
  const named = new Set(wanted.map(({ entry }) => serviceKey(entry)));
  const deletions = actual.filter((entry) => !named.has(serviceKey(entry)));
  return {
    upserts,
    deletions: deletions.map((entry) =>
      deletionStep(
        entry,
        wanted.map((each) => each.entry),
      ),
    ),
  };
}

function deletionStep(entry: CurrentService, wanted: readonly ServiceInput[]): Step {
  const reregister = wanted.filter(({ name, serviceType }) => name === entry.name && serviceType === entry.serviceType);
  const notes = reregister.length === 0 ? [] : ['others of its name and type are registered anew'];
  return { kind: 'service', action: 'delete', name: entry.name, entry, reregister, changes: [], notes };
}

function serviceMembers({
  name,
  host,
  port,
  serviceType,
  serviceSubType,
  languageName,
  labels = {},
  id,
}: ServiceFields): JsonObject {
  return {
    name,
    address: serviceAddress({ host, port }),
    serviceType,
    ...(serviceSubType !== undefined && { serviceSubType }),
    ...(languageName !== undefined && { languageName }),
    labels,
    ...(id !== undefined && { id }),
  };
}

type ServiceFields = Omit<CurrentService, 'address' | 'labels'> & {
  readonly labels?: CurrentService['labels'] | undefined;
};

import { type ServiceInput, serviceAddress, serviceKey } from '@sluice/contract';
import type { JsonObject } from '@sluice/protocol/json/parse';
import type { Actual, ActualService } from './actual.ts';
import type { Desired } from './desired.ts';
import { changesBetween, changesOfNew, type Step, type Steps } from './step.ts';

/** What to do with capability services. A POST replaces one of the same key (decisions 4.1). */
export function planServices({ services: wanted }: Desired, { services: actual }: Actual, prune: boolean): Steps {
  const known = new Map(actual.map((entry) => [serviceKey(entry), entry]));
  const made = wanted.flatMap(({ entry }): Step[] => {
    const before = known.get(serviceKey(entry));
    const { name } = entry;
    if (!before) {
      return [{ kind: 'service', action: 'create', name, entry, changes: changesOfNew(shown(entry)), notes: [] }];
    }
    const changes = changesBetween(shown(before), shown(entry));
    return changes.length === 0 ? [] : [{ kind: 'service', action: 'update', name, entry, changes, notes: [] }];
  });
  if (!prune) return { made, gone: [] };
  const named = new Set(wanted.map(({ entry }) => serviceKey(entry)));
  const gone = actual.filter((entry) => !named.has(serviceKey(entry)));
  return {
    made,
    gone: gone.map((entry) =>
      removal(
        entry,
        wanted.map((each) => each.entry),
      ),
    ),
  };
}

function removal(entry: ActualService, wanted: readonly ServiceInput[]): Step {
  const again = wanted.filter(({ name, serviceType }) => name === entry.name && serviceType === entry.serviceType);
  const notes = again.length === 0 ? [] : ['others of its name and type are registered anew'];
  return { kind: 'service', action: 'delete', name: entry.name, entry, again, changes: [], notes };
}

function shown({
  name,
  host,
  port,
  serviceType,
  serviceSubType,
  languageName,
  labels = {},
  id,
}: ServiceShown): JsonObject {
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

type ServiceShown = Omit<ActualService, 'address' | 'labels'> & {
  readonly labels?: ActualService['labels'] | undefined;
};

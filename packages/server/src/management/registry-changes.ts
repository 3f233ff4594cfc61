import { MAX_EVENT_NAMES, type RegistryEvent } from '@sluice/contract';
import { changedKeys } from '../registry/changes.ts';
import { SECTION } from '../registry/entries.ts';
import type { Registry } from '../registry/registry.ts';
import type { Snapshot } from '../registry/snapshot.ts';
import type { StateEvents } from '../telemetry/state-events.ts';

/** Minimum interval between events: the first change is reported at once, later ones are combined. */
const MIN_INTERVAL_MS = 100;

type Names = Set<string>;

/** Publishes changes of the registry as events, at most ten per second, until the returned object is closed. */
export function publishRegistryChanges(registry: Registry, events: StateEvents): { close(): void } {
  let reported = registry.current;
  /** Namespaces with changed lists since the last event. */
  const lists = { tools: new Set<string>(), resources: new Set<string>(), prompts: new Set<string>() };
  let timer: NodeJS.Timeout | undefined;
  let publishedAt = Number.NEGATIVE_INFINITY;
  const publish = (): void => {
    timer = undefined;
    publishedAt = performance.now();
    const before = reported;
    const after = registry.current;
    reported = after;
    const event = eventOf({
      // Lists of a namespace are reported by kind.
      namespaces: changedKeys(before.namespaces, after.namespaces, ({ labels }) => labels),
      forwards: changedKeys(before.forwards, after.forwards),
      services: before.services === after.services ? new Set<string>() : changedServices(before, after),
      ...lists,
    });
    for (const names of Object.values(lists)) names.clear();
    if (event) events.publish('registry', event);
  };
  const unsubscribe = registry.committed.subscribe((commit) => {
    for (const { namespace, kind } of commit.lists) lists[SECTION[kind]].add(namespace);
    timer ??= setTimeout(publish, Math.max(publishedAt + MIN_INTERVAL_MS - performance.now(), 0)).unref();
  });
  return {
    close() {
      unsubscribe();
      clearTimeout(timer);
    },
  };
}

/** Returns the event of these changes; undefined if there are none. */
function eventOf(
  changes: Readonly<Record<Exclude<keyof RegistryEvent, 'timestamp' | 'truncated'>, Names>>,
): RegistryEvent | undefined {
  const changed = Object.entries(changes).filter(([, names]) => names.size > 0);
  if (changed.length === 0) return undefined;
  return {
    timestamp: new Date().toISOString(),
    ...Object.fromEntries(changed.map(([kind, names]) => [kind, [...names].slice(0, MAX_EVENT_NAMES)])),
    ...(changed.some(([, names]) => names.size > MAX_EVENT_NAMES) && { truncated: true }),
  };
}

function changedServices(before: Snapshot, after: Snapshot): Names {
  const known = new Set(before.services.all);
  const current = new Set(after.services.all);
  return new Set([...known.symmetricDifference(current)].map(({ name }) => name));
}

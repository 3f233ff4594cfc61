import { MAX_EVENT_NAMES, type RegistryEvent } from '@sluice/contract';
import { changedKeys } from '../registry/changes.ts';
import { SECTION } from '../registry/entries.ts';
import type { Registry } from '../registry/registry.ts';
import type { Snapshot } from '../registry/snapshot.ts';
import type { StateEvents } from '../telemetry/state-events.ts';

/** Minimum interval between events: the first change is reported at once, later ones are combined. */
const MIN_INTERVAL_MS = 100;

type Names = Set<string>;

/** Publishes changes of the registry as events, at most ten per second. */
export class RegistryChanges {
  readonly #registry: Registry;
  readonly #events: StateEvents;
  readonly #unsubscribe: () => void;
  #reported: Snapshot;
  /** Namespaces with changed lists since the last event. */
  readonly #lists = { tools: new Set<string>(), resources: new Set<string>(), prompts: new Set<string>() };
  #timer: NodeJS.Timeout | undefined = undefined;
  #publishedAt = Number.NEGATIVE_INFINITY;

  constructor(registry: Registry, events: StateEvents) {
    this.#registry = registry;
    this.#events = events;
    this.#reported = registry.current;
    this.#unsubscribe = registry.committed.subscribe(({ lists }) => {
      for (const { namespace, kind } of lists) this.#lists[SECTION[kind]].add(namespace);
      const delay = Math.max(this.#publishedAt + MIN_INTERVAL_MS - performance.now(), 0);
      this.#timer ??= setTimeout(() => this.#publish(), delay).unref();
    });
  }

  close(): void {
    this.#unsubscribe();
    clearTimeout(this.#timer);
  }

  #publish(): void {
    this.#timer = undefined;
    this.#publishedAt = performance.now();
    const before = this.#reported;
    const after = this.#registry.current;
    this.#reported = after;
    const changes = {
      // Lists of a namespace are reported by kind.
      namespaces: changedKeys(before.namespaces, after.namespaces, ({ labels }) => labels),
      forwards: changedKeys(before.forwards, after.forwards),
      services: before.services === after.services ? new Set<string>() : changedServices(before, after),
      ...this.#lists,
    };
    const event = eventOf(changes);
    for (const names of Object.values(this.#lists)) names.clear();
    if (event) this.#events.publish('registry', event);
  }
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

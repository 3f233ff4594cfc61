import { isDeepStrictEqual } from 'node:util';
import type { ExposeRules } from '@sluice/contract';
import type { UndoStep } from './changes.ts';
import { type Entry, type Forward, isEnabled, type Namespace, type ServiceEntry, sameRecord } from './entries.ts';
import type { NamespaceState } from './snapshot.ts';
import { forEachInSteps, type Steps } from './steps.ts';

/** What an operation does. An `addition` replaces and removes nothing. */
export type OperationEffect = 'addition' | 'revocation' | 'other';

/** An operation on a draft: the state before it, to undo it and to find out what it takes away. */
export class DraftOperation {
  /** The changes of entries, in order. */
  readonly entries: UndoStep[] = [];
  /** What undoes each other change, in order. */
  readonly others: (() => void)[] = [];
  readonly removedNamespaces: NamespaceState[] = [];
  /** Whether the maps of the draft are copies of those before it. */
  hasCopies = false;
  /** Those that were replaced or removed, by name. */
  readonly forwards = new Map<string, Forward>();
  /** Those that were replaced or removed, by key. */
  readonly services = new Map<string, ServiceEntry>();

  recordForward(forward: Forward): void {
    this.forwards.getOrInsert(forward.name, forward);
  }

  /** Whether it has neither replaced nor removed an entry, a forward, a service or a namespace. */
  get isAddition(): boolean {
    const { removedNamespaces, forwards, services, entries } = this;
    const isNew = removedNamespaces.length + forwards.size + services.size === 0;
    return isNew && entries.every(({ before }) => before.length === 0);
  }

  undo(): void {
    for (const step of this.entries.reverse()) step.run();
    for (const undo of this.others.reverse()) undo();
  }
}

interface StateAfter {
  readonly namespaces: ReadonlyMap<Namespace, Pick<NamespaceState, 'identity'>>;
  readonly forwards: ReadonlyMap<string, Forward>;
  readonly services: ReadonlyMap<string, ServiceEntry>;
}

/**
 * Whether clients can no longer use something as they could before an operation, or reach something else by it: an entry that is
 * removed, disabled, renamed or replaced; a namespace, forward or capability service that is removed or has another address;
 * more uris that are hidden. Another text of the same object is none of that: its upstream decides about it.
 */
export function* revokesAccess(operation: DraftOperation, after: StateAfter): Steps<boolean> {
  const { removedNamespaces, forwards, services, entries } = operation;
  if (removedNamespaces.some(({ name, identity }) => after.namespaces.get(name)?.identity !== identity)) return true;
  for (const [key, service] of services) if (!hasSameTarget(service, after.services.get(key))) return true;
  const [hiddenBefore, hiddenAfter] = [new Set<string>(), new Set<string>()];
  for (const before of forwards.values()) {
    const current = after.forwards.get(before.name);
    if (!current || isWithdrawnForward(before, current)) return true;
    addHidden(hiddenBefore, before.detachedOverrides);
    addHidden(hiddenAfter, current.detachedOverrides);
  }
  let isWithdrawn = false;
  yield* forEachInSteps(entries, ({ before, after: claims }) => {
    if (isWithdrawn) return;
    isWithdrawn = isWithdrawnEntry(before[0], claims[0]);
    addHidden(hiddenBefore, before);
    addHidden(hiddenAfter, claims);
  });
  return isWithdrawn || !hiddenAfter.isSubsetOf(hiddenBefore);
}

/** `before` and `after`: the entries that hold a key. */
function isWithdrawnEntry(before: Entry | undefined, after: Entry | undefined): boolean {
  if (!before || before === after || !isEnabled(before)) return false;
  if (!after || !isEnabled(after) || !sameRecord(before, after)) return true;
  // What executes it. That of a discovered entry is its forward.
  return !before.discovered && !isDeepStrictEqual(before.members, after.members);
}

function isWithdrawnForward(before: Forward, after: Forward): boolean {
  return (
    before.registrationId !== after.registrationId ||
    before.address !== after.address ||
    before.proxy !== after.proxy ||
    !isDeepStrictEqual(before.headers ?? {}, after.headers ?? {}) ||
    // Entries that are not exposed any more are removed; uris need no entry.
    isNarrower(before.expose?.resources ?? {}, after.expose?.resources ?? {})
  );
}

/** Whether rules may expose less than before. */
export function isNarrower(before: ExposeRules, after: ExposeRules): boolean {
  const { allow, deny = [] } = after;
  const coversAllowed = !allow || (before.allow?.every((glob) => allow.includes(glob)) ?? false);
  return !coversAllowed || !deny.every((glob) => before.deny?.includes(glob) ?? false);
}

/** Whether calls reach a service at the same place. */
function hasSameTarget(a: ServiceEntry, b: ServiceEntry | undefined): boolean {
  return a.host === b?.host && a.port === b.port && a.id === b.id;
}

/** Adds the disabled resources, which hide uris, also those of others. */
function addHidden(hidden: Set<string>, entries: readonly Entry[] = []): void {
  for (const entry of entries) {
    if (entry.kind !== 'resource' || isEnabled(entry)) continue;
    hidden.add(JSON.stringify([entry.namespace, entry.key, entry.discovered?.forward, entry.discovered?.upstreamKey]));
  }
}

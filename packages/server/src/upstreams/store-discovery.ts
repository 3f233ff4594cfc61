import { counted } from '@sluice/protocol/text';
import {
  applyCatalogsInSteps,
  type DiscoveredCatalog,
  knownCatalogs,
  storeKnownCatalogs,
} from '../registry/catalogs.ts';
import type { Draft } from '../registry/draft.ts';
import { type Forward, KINDS } from '../registry/entries.ts';
import type { Counts } from '../registry/snapshot.ts';
import type { Steps } from '../registry/steps.ts';
import type { Discovery } from './forward-connection.ts';

/** Result of a discovery in the registry. */
export interface StoredDiscovery {
  /** Catalogs of undecided eras, which were not discovered again. */
  readonly known: readonly DiscoveredCatalog[];
  /** Objects that the forward does not expose; undefined if it has changed meanwhile. */
  readonly hidden?: Counts | undefined;
}

/**
 * Stores the catalogs of a discovery. `hidden` is the result of the last one, for a discovery that changes no lists. Changes
 * nothing if the forward is another one meanwhile, or has another address.
 */
export function* storeDiscovery(
  draft: Draft,
  { name, address, registrationId }: Forward,
  { catalogs, difference, undecided }: Discovery,
  hidden: Counts | undefined,
): Steps<StoredDiscovery> {
  const forward = draft.forwards.get(name);
  if (forward?.registrationId !== registrationId || forward.address !== address) return { known: [] };
  const known = yield* knownCatalogs(draft, forward, new Set(undecided.map(({ era }) => era)));
  if (difference !== 'profiles' || known.length > 0) {
    return { known, hidden: yield* applyCatalogsInSteps(draft, forward, [...catalogs, ...known]) };
  }
  storeKnownCatalogs(draft, forward, catalogs, forward.orphanedOverrides ?? [], false);
  return { known, hidden };
}

/** Notes on a discovery for the status of its forward. */
export function notesOf({ notes, undecided }: Discovery, { known, hidden }: StoredDiscovery): string[] {
  const retained = undecided.filter(({ era }) => known.some((catalog) => catalog.era === era));
  return [...notes, ...describeHidden(hidden), ...retained.map(({ note }) => note)];
}

/** Counts the objects that the forward does not expose: `not exposed: 3 tools, 1 prompt`. */
function describeHidden(hidden: Counts | undefined): string[] {
  const counts = KINDS.flatMap((kind) => {
    const count = hidden?.[kind] ?? 0;
    return count === 0 ? [] : [counted(count, kind)];
  });
  return counts.length === 0 ? [] : [`not exposed: ${counts.join(', ')}`];
}

import { type Entry, isTemplate, type Kind, type Offer } from '../registry/entries.ts';
import type { Namespace } from '../registry/names.ts';
import type { Snapshot } from '../registry/snapshot.ts';

/**
 * True when a client may see another list of this kind in a namespace than before. It may, for a client of some era and
 * capabilities, when an entry's text or place differs, or when a forward has other catalogues, of which that client may
 * now get another one. Caching hints are no part of a list.
 */
export function mayLookDifferent(before: Snapshot, after: Snapshot, namespace: Namespace, kind: Kind): boolean {
  const former = before.namespaces.get(namespace)?.shelves[kind];
  const shelf = after.namespaces.get(namespace)?.shelves[kind];
  const entries = shelf?.entries ?? [];
  const formerEntries = former?.entries ?? [];
  if (entries.length !== formerEntries.length) return true;
  if (entries.some((entry, at) => !looksSame(entry, formerEntries[at]))) return true;
  const forwards = shelf?.counts.keys() ?? [];
  return [...forwards].some((forward) => catalogueKeys(before, forward) !== catalogueKeys(after, forward));
}

function looksSame(a: Entry, b: Entry | undefined): boolean {
  if (a === b) return true;
  return (
    b !== undefined &&
    a.discovered?.forward === b.discovered?.forward &&
    isTemplate(a) === isTemplate(b) &&
    a.served.length === b.served.length &&
    a.served.every((offer, at) => isSameOffer(offer, b.served[at]))
  );
}

function isSameOffer(a: Offer, b: Offer | undefined): boolean {
  return a.json === b?.json && String(a.catalogues) === String(b.catalogues);
}

function catalogueKeys(snapshot: Snapshot, forward: string): string {
  return JSON.stringify(snapshot.forwards.get(forward)?.catalogues.map(({ key }) => key));
}

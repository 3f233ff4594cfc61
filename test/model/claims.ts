import { byListPosition, type Entry, ensureNamespace, type Kind, type State } from './state.ts';

/**
 * Served entry of a key: the first registered one; later ones are shadowed, and when it is removed, the oldest shadowed entry is
 * served. Oldest: in the order of lists.
 */

/** The served entry of a key. */
export function servedEntryOf(state: State, kind: Kind, namespace: string, key: string): Entry | undefined {
  return state.entries.find(
    (entry) => !entry.shadowed && entry.kind === kind && entry.namespace === namespace && entry.key === key,
  );
}

/** Adds an entry, which is shadowed if its key is in use. */
export function addEntry(state: State, entry: Entry): void {
  ensureNamespace(state, entry.namespace);
  const shadowed = servedEntryOf(state, entry.kind, entry.namespace, entry.key) !== undefined;
  state.entries.push({ ...entry, shadowed });
}

/** Puts one state of an entry in the place of another. */
export function replaceEntry(state: State, before: Entry, after: Entry): void {
  if (before.key === after.key && before.namespace === after.namespace) {
    state.entries[state.entries.indexOf(before)] = { ...after, shadowed: before.shadowed };
    return;
  }
  removeEntry(state, before);
  addEntry(state, after);
}

/** Removes an entry; the next entry of its key is served. */
export function removeEntry(state: State, gone: Entry): void {
  state.entries = state.entries.filter((entry) => entry !== gone);
  if (gone.shadowed) return;
  const { kind, namespace, key } = gone;
  const [oldest] = state.entries
    .filter((entry) => entry.kind === kind && entry.namespace === namespace && entry.key === key)
    .sort(byListPosition);
  if (oldest) state.entries[state.entries.indexOf(oldest)] = { ...oldest, shadowed: false };
}

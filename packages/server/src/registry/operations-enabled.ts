import { discoveredEntry } from './catalogs.ts';
import type { Draft } from './draft.ts';
import { type Entry, type Forward, isEnabled, type Kind } from './entries.ts';
import { OperationError } from './operation-error.ts';
import { findEntries, type Selection } from './operations.ts';
import { withDetached } from './retained.ts';
import { internedFields } from './serialize.ts';
import { forEachInSteps, type Steps } from './steps.ts';

/** Objects of an upstream by its own names or uris, discovered or not. */
export interface UpstreamSelection {
  readonly forward: string;
  readonly keys: ReadonlySet<string>;
}

/**
 * Enables or disables all selected entries, or none. OperationError NOT_FOUND or CONFLICT with all names that select no
 * entry or several.
 */
export function* enableEntries(draft: Draft, kind: Kind, selection: Selection, enabled: boolean): Steps<number> {
  const entries = findEntries(draft, kind, selection);
  yield* setAllEnabled(draft, entries, enabled);
  return entries.length;
}

/**
 * Enables or disables objects of a forward, wherever their entries are. Objects that are not discovered are marked, and
 * the mark applies when they are. Returns the keys of the latter. OperationError NOT_FOUND for an unknown
 * forward.
 */
export function* markUpstreamEntries(
  draft: Draft,
  kind: Kind,
  { forward: name, keys }: UpstreamSelection,
  enabled: boolean,
): Steps<string[]> {
  const forward = draft.forwards.get(name);
  if (!forward) throw new OperationError('NOT_FOUND', `forward not found: ${name}`);
  const pending = new Set(keys);
  const entries: Entry[] = [];
  yield* forEachInSteps(yield* draft.entriesInSteps(name), (entry) => {
    const { discovered } = entry;
    const isOriginal = entry.kind === kind && discovered && !discovered.copied;
    if (isOriginal && pending.delete(discovered.upstreamKey)) entries.push(entry);
  });
  const detached = forward.detachedOverrides?.filter((entry) => entry.kind === kind) ?? [];
  const known = new Map(detached.map((entry) => [entry.discovered?.upstreamKey, entry]));
  const absent = [...pending].map((key) => marked(known.get(key) ?? undiscoveredEntry(forward, kind, key), enabled));
  if (absent.length > 0) draft.putForward(withDetached(forward, absent));
  yield* setAllEnabled(draft, entries, enabled);
  yield* coverCopies(draft, absent);
  return [...pending];
}

/** The state that an object of the upstream will have; it has no text yet. */
export function undiscoveredEntry(forward: Forward, kind: Kind, upstreamKey: string): Entry {
  const variants = [{ json: '{}', catalogs: undefined }];
  const item = { kind, template: false, key: upstreamKey, variants, position: 0 };
  return discoveredEntry(forward, item, undefined, internedFields(forward.address));
}

/** Enables or disables one entry and returns its new state; otherwise as {@link enableEntries}. */
export function* setEnabled(draft: Draft, entry: Entry, enabled: boolean): Steps<Entry> {
  const [changed = entry] = yield* setAllEnabled(draft, [entry], enabled);
  return changed;
}

/**
 * Enables or disables entries, and with them the copies that actions made of them. OperationError CONFLICT
 * for a copy that would be enabled while its original is disabled.
 */
function* setAllEnabled(draft: Draft, entries: readonly Entry[], enabled: boolean): Steps<Entry[]> {
  const changed = entries.map((entry) => marked(entry, enabled));
  yield* forEachInSteps(changed, (entry) => draft.put(entry));
  yield* coverCopies(draft, changed);
  return changed;
}

/** The entry as an operator has enabled or disabled it. */
export function marked(entry: Entry, enabled: boolean): Entry {
  const { discovered } = entry;
  return {
    ...entry,
    disabledBy: enabled ? undefined : 'operator',
    discovered: discovered && { ...discovered, approved: enabled || undefined },
  };
}

/** Disables the copies of disabled originals, and enables those that were disabled with them. */
export function* coverCopies(draft: Draft, changed: readonly Entry[]): Steps<void> {
  const byForward = Map.groupBy(
    changed.filter(({ kind, discovered }) => kind === 'tool' && discovered),
    ({ discovered }) => discovered?.forward ?? '',
  );
  for (const [forward, tools] of byForward) {
    const found = (yield* draft.entriesInSteps(forward)).filter(({ kind }) => kind === 'tool');
    const copies = found.filter(({ discovered }) => discovered?.copied);
    if (copies.length === 0) continue;
    const detached = draft.forwards.get(forward)?.detachedOverrides ?? [];
    const originals = [...detached, ...found.filter(({ discovered }) => !discovered?.copied)];
    const states = new Map(originals.map((entry) => [entry.discovered?.upstreamKey, isEnabled(entry)]));
    const requested = new Set(tools);
    yield* forEachInSteps(copies, (copy) => {
      const isOriginalEnabled = states.get(copy.discovered?.upstreamKey) ?? true;
      if (requested.has(copy) && isEnabled(copy) && !isOriginalEnabled) throw disabledOriginalError(copy);
      if (!isOriginalEnabled && isEnabled(copy)) draft.put({ ...copy, disabledBy: 'original' });
      else if (isOriginalEnabled && copy.disabledBy === 'original') draft.put({ ...copy, disabledBy: undefined });
    });
  }
}

function disabledOriginalError({ name, namespace, discovered }: Entry): OperationError {
  return new OperationError(
    'CONFLICT',
    `tool ${name} in namespace ${namespace} is a copy of the disabled tool ${discovered?.upstreamKey} of forward ${discovered?.forward}; enable the original first`,
  );
}

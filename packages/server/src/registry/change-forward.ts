import {
  changedHeaders,
  type ExposePatch,
  type ForwardHeadersPatch,
  mergeExpose,
  type StateForward,
} from '@sluice/contract';
import type { Draft } from './draft.ts';
import { DEFAULT_NAMESPACE, type Entry, type Forward } from './entries.ts';
import { Exposure } from './exposure.ts';
import { OperationError } from './operation-error.ts';
import { abbreviated, namespaceOf } from './operations.ts';
import type { ForwardInput } from './operations-topology.ts';
import { hasOperatorState, withDetached } from './retained.ts';
import { render } from './serialize.ts';
import { forEachInSteps, type Steps } from './steps.ts';

/** Members that changes are merged into: what is missing stays, null removes a part or all. */
interface MergedMembers {
  readonly headers?: ForwardHeadersPatch | null | undefined;
  readonly expose?: ExposePatch | null | undefined;
}

/** New values of a forward's members; missing ones stay. */
export type ForwardChanges = Partial<Omit<ForwardInput, 'name' | keyof MergedMembers>> & MergedMembers;

/** Returns the configuration of a forward that is described completely. OperationError for an invalid namespace. */
export function describedForward(description: StateForward): ForwardInput {
  const { name, address, namespace = DEFAULT_NAMESPACE, labels = {}, prefix = '', proxy, compression } = description;
  const headers = changedHeaders(undefined, description.headers);
  const expose = mergeExpose(undefined, description.expose);
  const options = { headers, expose, proxy, compression: compression || undefined };
  return { name, address, namespace: namespaceOf(namespace), labels, prefix, ...options };
}

/** A changed forward, and what it has taken out of the draft. */
export interface DetachedEntries {
  readonly forward: Forward;
  /** The entries that follow it, where it has them now. They are not in the draft. */
  readonly followers: readonly Entry[];
  /** Entries of others that were shadowed by removed ones and hold their keys now. */
  readonly promoted: readonly Entry[];
}

/**
 * Changes a forward in place. Its entries follow its namespace and prefix, unless an operator moved or renamed them; those that
 * are where it arrives follow it again. Overrides and marks stay. Entries that it no longer exposes are removed, and return with
 * the next discovery that finds them exposed. OperationError CONFLICT with the names that are held there. Returns the same object
 * when nothing changes.
 */
export function* changeForwardInSteps(draft: Draft, forward: Forward, changes: ForwardChanges): Steps<Forward> {
  const { forward: stored, followers } = yield* detachFollowers(draft, forward, changes);
  const taken: Entry[] = [];
  yield* forEachInSteps(followers, (entry) => {
    if (draft.get(entry.kind, entry.namespace, entry.key)) taken.push(entry);
    else draft.put(entry);
  });
  if (taken.length > 0) throw takenKeysError(forward, taken);
  return stored;
}

/** As {@link changeForwardInSteps}, but the caller puts the entries that follow the forward into the draft. */
export function* detachFollowers(draft: Draft, forward: Forward, changes: ForwardChanges): Steps<DetachedEntries> {
  const headers = changedHeaders(forward.headers, changes.headers);
  const expose = mergeExpose(forward.expose, changes.expose);
  const { modernProbeAfter, ...others } = forward;
  const moves = changes.address !== undefined && changes.address !== forward.address;
  const changed: Forward = {
    ...others,
    ...changes,
    headers,
    expose,
    // Another server may be at another address.
    ...(modernProbeAfter !== undefined && !moves && { modernProbeAfter }),
  };
  const followers: Entry[] = [];
  const promoted: Entry[] = [];
  if (configurationOf(changed) === configurationOf(forward)) return { forward, followers, promoted };
  const exposure = new Exposure(changed);
  const retained: Entry[] = [];
  const remove = (entry: Entry) => {
    const next = draft.remove(entry);
    if (next) promoted.push(next);
  };
  yield* forEachInSteps(yield* draft.entriesInSteps(forward.name), (entry) => {
    const { kind, key, discovered } = entry;
    if (!exposure.exposes(kind, discovered?.upstreamKey ?? key)) {
      remove(entry);
      if (!discovered?.copied && hasOperatorState(entry)) retained.push(entry);
      return;
    }
    const placed = placedIn(changed, entry, forward);
    if (placed === entry) return;
    remove(entry);
    followers.push(placed);
  });
  const detached = retained.length > 0 ? withDetached(forward, retained).detachedOverrides : forward.detachedOverrides;
  const detachedOverrides = detached?.map((entry) => placedIn(changed, entry, forward));
  // Before its entries, which are restored by its namespace and prefix.
  const stored = detachedOverrides ? { ...changed, detachedOverrides } : changed;
  draft.putForward(stored);
  return { forward: stored, followers, promoted };
}

/** Text of the members that operators set, for comparison. */
export function configurationOf(forward: Forward): string {
  const { address, namespace, labels, prefix, headers = {}, expose, proxy, compression } = forward;
  const sorted = (values: object) => Object.entries(values).sort();
  return JSON.stringify([address, namespace, sorted(labels), prefix, sorted(headers), expose, proxy, compression]);
}

/** The entry where its changed forward has it; the same object if it stays. */
function placedIn({ namespace: home, prefix }: Forward, entry: Entry, before: Forward): Entry {
  const { kind, discovered } = entry;
  if (!discovered || discovered.copied) return entry;
  const { upstreamKey, moved, renamed } = discovered;
  const namespace = moved && entry.namespace !== before.namespace ? entry.namespace : home;
  const keepsKey = kind === 'resource' || (renamed && entry.key !== before.prefix + upstreamKey);
  const key = keepsKey ? entry.key : prefix + upstreamKey;
  const isMoved = namespace !== home || undefined;
  const isRenamed = (kind === 'resource' ? renamed : key !== prefix + upstreamKey) || undefined;
  const stays = namespace === entry.namespace && key === entry.key;
  if (stays && moved === isMoved && renamed === isRenamed) return entry;
  const placed = { ...discovered, moved: isMoved, renamed: isRenamed };
  return render({ ...entry, namespace, key, ...(!keepsKey && { name: key }), discovered: placed });
}

function takenKeysError({ name }: Forward, taken: readonly Entry[]): OperationError {
  const named = taken.map(({ kind, key, namespace }) => `${kind} ${key} in namespace ${namespace}`);
  return new OperationError(
    'CONFLICT',
    `forward ${name} is not changed, because these names are in use: ${abbreviated(named)}`,
    { names: taken.map(({ key }) => key) },
  );
}

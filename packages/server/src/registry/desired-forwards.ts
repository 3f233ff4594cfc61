import { EXPOSED_KINDS, type Expose, type StateChange, type StateForward } from '@sluice/contract';
import { type JsonObject, parseLossless } from '@sluice/protocol/json/parse';
import { describedForward, detachFollowers } from './change-forward.ts';
import type { Draft } from './draft.ts';
import type { Entry, Forward } from './entries.ts';
import { addForward, removeForwardInSteps } from './operations-topology.ts';
import { isNarrower } from './revoked-access.ts';
import { forwardMembers } from './serialize.ts';
import { definedMembers, diffMembers, initialMembers, type StateDifference } from './state-difference.ts';
import { forEachInSteps, type Steps } from './steps.ts';

/** Checks of a forward that the registry does not make. Both throw OperationError. */
export interface ForwardChecks {
  /** Rejects what cannot be reached, or secrets that must not be sent there. */
  requireUsable(after: Forward, before?: Forward): void;
  /** Rejects another origin for a forward with headers. */
  requireSameOrigin(before: Forward, after: Forward): void;
}

/** The forwards of a desired state in the draft, and the entries that are to be put back. */
export interface AppliedForwards {
  /** Entries that follow their forwards, by the path of the forward. They are not in the draft. */
  readonly followers: ReadonlyMap<Entry, string>;
  /** New forwards and those with another address or other rules: what their upstreams list is not known. */
  readonly uncertain: ReadonlySet<string>;
  readonly added: ReadonlySet<string>;
}

/** Registers and changes forwards. */
export function* applyForwards(
  draft: Draft,
  wanted: readonly StateForward[],
  difference: StateDifference,
  checks: ForwardChecks,
): Steps<AppliedForwards> {
  const followers = new Map<Entry, string>();
  const uncertain = new Set<string>();
  const added = new Set<string>();
  for (const [index, description] of wanted.entries()) {
    yield;
    const path = `forwards.${index}`;
    const { name, headers, expose } = description;
    const described = describedForward(description);
    const before = draft.forwards.get(name);
    if (!before) {
      const after = addForward(draft, described);
      difference.check(path, () => checks.requireUsable(after));
      const change = { action: 'create', kind: 'forward', name } as const;
      difference.add({ ...change, members: initialMembers(membersOf(after)), notes: [] });
      uncertain.add(name);
      added.add(name);
      continue;
    }
    const detached = yield* detachFollowers(draft, before, { ...described, headers, expose });
    const { forward: after } = detached;
    difference.check(path, () => {
      checks.requireUsable(after, before);
      if (headers === undefined) checks.requireSameOrigin(before, after);
    });
    if (after === before) continue;
    const change = forwardChange(before, after);
    difference.add(change);
    difference.promote(detached.promoted, change);
    for (const entry of detached.followers) followers.set(entry, path);
    if (change.members.some(({ member }) => member === 'address' || member === 'expose')) uncertain.add(name);
  }
  return { followers, uncertain, added };
}

/** Removes a forward because of a change. */
export function* removeForward(
  draft: Draft,
  name: string,
  difference: StateDifference,
  change: StateChange,
): Steps<void> {
  yield* forEachInSteps(yield* draft.entriesInSteps(name), (entry) => difference.remove(entry, change));
  yield* removeForwardInSteps(draft, name);
}

function forwardChange(before: Forward, after: Forward): StateChange {
  const { name, namespace, prefix } = after;
  const isMoved = before.namespace !== namespace;
  const notes =
    isMoved || before.prefix !== prefix ? ['its entries follow, except those that were moved or renamed'] : [];
  const widens = [
    ...(isMoved ? [`moves its entries to namespace ${namespace}`] : []),
    ...(isLoosened(before.expose, after.expose) ? ['may expose more entries'] : []),
  ];
  const members = diffMembers(membersOf(before), membersOf(after));
  return { action: 'update', kind: 'forward', name, members, ...(widens.length > 0 && { widens }), notes };
}

/** Whether a change of the rules may expose entries that were not exposed before. */
function isLoosened(before: Expose = {}, after: Expose = {}): boolean {
  return EXPOSED_KINDS.some((kind) => {
    const [old, next] = [before[kind] ?? {}, after[kind] ?? {}];
    return isNarrower(next, old) || (old.new === 'disabled' && next.new !== 'disabled');
  });
}

function membersOf(forward: Forward): JsonObject {
  const { expose, ...members } = forwardMembers(forward);
  return definedMembers({ ...members, expose: expose && parseLossless(JSON.stringify(expose)) });
}

import type { Draft } from './draft.ts';
import { type Entry, type Forward, TEMPLATE_LABEL } from './entries.ts';
import { sharedMemberNames } from './serialize.ts';

/** Label with the upstream address of a discovered resource. */
export const ADDRESS_LABEL = 'service.forward_address';

/** True when an operator moved, renamed, labeled, disabled, enabled or overrode an entry. */
export function hasOperatorState({ kind, labels, members, discovered, disabledBy }: Entry): boolean {
  if (!discovered) return false;
  return (
    disabledBy === 'operator' ||
    discovered.approved === true ||
    discovered.moved === true ||
    discovered.renamed === true ||
    Object.keys(discovered.overrides).length > 0 ||
    Object.keys(labels).some((label) => label !== ADDRESS_LABEL && label !== TEMPLATE_LABEL) ||
    Object.keys(members).length > sharedMemberNames(kind).length
  );
}

/**
 * Retains the state of removed entries in their forward, so that it applies when the upstream lists them again. Does nothing for
 * manual entries, copies and entries without such state.
 */
export function retainState(draft: Draft, entry: Entry): void {
  const { discovered } = entry;
  const forward = discovered && !discovered.copied ? draft.forwards.get(discovered.forward) : undefined;
  if (forward && hasOperatorState(entry)) draft.putForward(withDetached(forward, [entry]));
}

/** The forward with these states of absent entries, which replace earlier ones. Those that are the upstream's own are left out. */
export function withDetached(forward: Forward, entries: readonly Entry[]): Forward {
  const states = new Map([...(forward.detachedOverrides ?? []), ...entries].map((entry) => [objectKey(entry), entry]));
  return { ...forward, detachedOverrides: [...states.values()].filter(hasOperatorState) };
}

/** Identifies an object of an upstream. */
function objectKey({ kind, discovered }: Entry): string {
  return `${kind} ${discovered?.upstreamKey}`;
}

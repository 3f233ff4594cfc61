import { changedHeaders } from '@sluice/contract';
import type { JsonObject } from '@sluice/protocol/json/parse';
import { Failure } from '../failure.ts';
import type { CurrentForward, CurrentState } from './current-state.ts';
import type { DesiredForward, DesiredState } from './desired-state.ts';
import { applyOverrides, NO_OVERRIDES, toolChanges } from './discovered-tools.ts';
import { diffMembers, initialMembers, type PlannedSteps, type Step } from './step.ts';

/** Planned steps for forwards and their result. */
export interface ForwardPlan extends PlannedSteps {
  /** All forwards after the plan by name, in order of registration. */
  readonly result: ReadonlyMap<string, CurrentForward>;
  /** Forwards that a step registers (again); their tools are not known yet. */
  readonly registered: ReadonlySet<string>;
  /** Forwards that get another address: which tools they have there is not known. */
  readonly readdressed: ReadonlySet<string>;
  /** Forwards that a step deletes, whether they are registered again or not. */
  readonly deleted: ReadonlySet<string>;
}

/**
 * Plans the forwards. Address and labels are changed in place (decisions 10.1). Another namespace or prefix would move and
 * rename tools to names that later steps free, so such a forward is deleted and registered again.
 */
export function planForwards(desired: DesiredState, actual: CurrentState, prune: boolean): ForwardPlan {
  const known = new Map(actual.forwards.map((forward) => [forward.name, forward]));
  const upserts: Step[] = [];
  const stay = new Map<string, CurrentForward>(known);
  const readdressed = new Set<string>();
  const registered = new Map<string, CurrentForward>();
  for (const described of desired.forwards) {
    const { name } = described;
    const before = known.get(name);
    if (before) requireHeaders(before, described);
    const forward = { ...described, headers: changedHeaders(before?.headers, described.headers) };
    if (!before) {
      upserts.push({
        kind: 'forward',
        action: 'create',
        name,
        forward,
        changes: initialMembers(forwardMembers(forward)),
        notes: [],
      });
    } else {
      const changes = diffMembers(forwardMembers(before), forwardMembers(forward));
      if (changes.length === 0) continue;
      if (forward.namespace === before.namespace && forward.prefix === before.prefix) {
        upserts.push({ kind: 'forward', action: 'update', name, forward: described, changes, notes: [] });
        stay.set(name, forward);
        if (forward.address !== before.address) readdressed.add(name);
        continue;
      }
      upserts.push({
        kind: 'forward',
        action: 'replace',
        name,
        forward,
        changes,
        notes: replacementNotes(before, desired, actual),
      });
    }
    registered.set(name, forward);
    stay.delete(name);
  }
  const named = new Set(desired.forwards.map(({ name }) => name));
  const unnamed = prune ? actual.forwards.filter(({ name }) => !named.has(name)) : [];
  for (const { name } of unnamed) stay.delete(name);
  const deletions = unnamed.map(
    ({ name }): Step => ({
      kind: 'forward',
      action: 'delete',
      name,
      changes: [],
      notes: ['with its discovered entries'],
    }),
  );
  const deleted = new Set([
    ...unnamed.map(({ name }) => name),
    ...[...registered.keys()].filter((name) => known.has(name)),
  ]);
  return {
    upserts,
    deletions,
    result: new Map([...stay, ...registered]),
    registered: new Set(registered.keys()),
    readdressed,
    deleted,
  };
}

function replacementNotes(
  forward: CurrentForward,
  { overrides }: DesiredState,
  { discovered }: CurrentState,
): string[] {
  const named = new Set(overrides.filter((each) => each.forward === forward.name).map((each) => each.upstreamName));
  const lostChanges = discovered
    .filter((tool) => tool.forward === forward.name && !named.has(tool.upstreamName))
    .filter((tool) => toolChanges(tool, applyOverrides(NO_OVERRIDES, tool, forward)).length > 0)
    .map((tool) => tool.name);
  return [
    'to change its namespace or prefix it is deleted and registered again, and changes to its resources and prompts are lost',
    ...(lostChanges.length === 0
      ? []
      : [`changes to these tools are lost, because the file does not contain them: ${lostChanges.join(', ')}`]),
  ];
}

function forwardMembers({ name, address, namespace, labels, prefix, headers }: CurrentForward): JsonObject {
  return { name, address, namespace, labels, ...(prefix !== '' && { prefix }), ...(headers && { headers }) };
}

/** Credentials do not move to another host by themselves. Throws {@link Failure}. */
function requireHeaders({ name, address, headers }: CurrentForward, described: DesiredForward): void {
  if (!headers || described.headers !== undefined) return;
  if (new URL(address).origin === new URL(described.address).origin) return;
  const names = Object.keys(headers).join(', ');
  throw new Failure(
    `${described.position()}: the new address of forward ${name} has another origin: add headers, to confirm or change ${names}`,
  );
}

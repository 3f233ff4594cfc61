import { type Expose, mergeExpose } from '@sluice/contract';
import { isJsonObject, type JsonObject, parseJson } from '@sluice/protocol/json/parse';
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
  /** Forwards that get another address or expose other entries: which tools they have then is not known. */
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
  for (const forward of desired.forwards) {
    const { name } = forward;
    const before = known.get(name);
    const after = plannedForward(forward, before);
    if (!before) {
      upserts.push({
        kind: 'forward',
        action: 'create',
        name,
        forward,
        changes: initialMembers(forwardMembers(after)),
        notes: [],
      });
    } else {
      const changes = diffMembers(forwardMembers(before), forwardMembers(after));
      if (changes.length === 0) continue;
      if (forward.namespace === before.namespace && forward.prefix === before.prefix) {
        upserts.push({ kind: 'forward', action: 'update', name, forward, changes, notes: [] });
        stay.set(name, after);
        if (changes.some(({ member }) => member === 'address' || member === 'expose')) readdressed.add(name);
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
    registered.set(name, after);
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

/** The forward after the plan: what its rules leave out stays unchanged. */
function plannedForward({ expose, ...forward }: DesiredForward, before: CurrentForward | undefined): CurrentForward {
  const { name, address, namespace, labels, prefix } = forward;
  const rules = expose === undefined ? before?.expose : mergeExpose(before?.expose, expose);
  return { name, address, namespace, labels, prefix, expose: rules };
}

function forwardMembers({ name, address, namespace, labels, prefix, expose }: CurrentForward): JsonObject {
  return {
    name,
    address,
    namespace,
    labels,
    ...(prefix !== '' && { prefix }),
    ...(expose && { expose: exposeJson(expose) }),
  };
}

/** The rules as JSON. */
export function exposeJson(expose: Expose): JsonObject {
  const json = parseJson(JSON.stringify(expose));
  return isJsonObject(json) ? json : {};
}

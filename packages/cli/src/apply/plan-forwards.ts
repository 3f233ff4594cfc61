import type { JsonObject } from '@sluice/protocol/json/parse';
import type { Actual, ActualForward } from './actual.ts';
import type { Desired, WantedForward } from './desired.ts';
import { effective, NOTHING, overrideChanges } from './effective.ts';
import { changesBetween, changesOfNew, type Step, type Steps } from './step.ts';

/** What becomes of the forwards, besides the steps. */
export interface ForwardPlan extends Steps {
  /** By name, every forward that there will be, in order of registration. */
  readonly after: ReadonlyMap<string, ActualForward>;
  /** Those that are registered by a step, so that nothing is known yet of their tools. */
  readonly fresh: ReadonlySet<string>;
  /** Those that a step deletes, to be registered again or not. */
  readonly deleted: ReadonlySet<string>;
}

/** What to do with forwards. There is no PUT: one that differs is deleted and registered anew (specification, "Endpoints"). */
export function planForwards(desired: Desired, actual: Actual, prune: boolean): ForwardPlan {
  const known = new Map(actual.forwards.map((forward) => [forward.name, forward]));
  const made: Step[] = [];
  const stay = new Map(known);
  const fresh = new Map<string, ActualForward>();
  for (const forward of desired.forwards) {
    const { name } = forward;
    const before = known.get(name);
    if (!before) {
      made.push({ kind: 'forward', action: 'create', name, forward, changes: changesOfNew(shown(forward)), notes: [] });
    } else {
      const changes = changesBetween(shown(before), shown(forward));
      if (changes.length === 0) continue;
      made.push({
        kind: 'forward',
        action: 'replace',
        name,
        forward,
        changes,
        notes: lossesOf(before, desired, actual),
      });
    }
    fresh.set(name, forward);
    stay.delete(name);
  }
  const named = new Set(desired.forwards.map(({ name }) => name));
  const unnamed = prune ? actual.forwards.filter(({ name }) => !named.has(name)) : [];
  for (const { name } of unnamed) stay.delete(name);
  const gone = unnamed.map(
    ({ name }): Step => ({ kind: 'forward', action: 'delete', name, changes: [], notes: ['with all that it brought'] }),
  );
  const deleted = new Set([...unnamed.map(({ name }) => name), ...[...fresh.keys()].filter((name) => known.has(name))]);
  return { made, gone, after: new Map([...stay, ...fresh]), fresh: new Set(fresh.keys()), deleted };
}

function lossesOf(forward: ActualForward, { overrides }: Desired, { discovered }: Actual): string[] {
  const named = new Set(overrides.filter((each) => each.forward === forward.name).map((each) => each.upstreamName));
  const lost = discovered
    .filter((tool) => tool.forward === forward.name && !named.has(tool.upstreamName))
    .filter((tool) => overrideChanges(tool, effective(NOTHING, tool, forward)).length > 0)
    .map((tool) => tool.name);
  return [
    'a forward cannot be changed: it is deleted and registered anew, and what was changed on its resources and prompts goes',
    ...(lost.length === 0
      ? []
      : [`what was changed on these tools goes, the file does not name them: ${lost.join(', ')}`]),
  ];
}

function shown({ name, address, namespace, labels, prefix }: WantedForward | ActualForward): JsonObject {
  return { name, address, namespace, labels, ...(prefix !== '' && { prefix }) };
}

import { DEFAULT_NAMESPACE, type Labels } from '@sluice/contract';
import type { Actual } from './actual.ts';
import type { Desired } from './desired.ts';
import type { ForwardPlan } from './plan-forwards.ts';
import { type Contents, changesBetween, changesOfNew, contentsText, type Step } from './step.ts';

/**
 * The namespaces that there will be. One that forwards and tools of the files are in need not be named itself: then it
 * keeps its labels, or with `prune` has none.
 */
export function namespacesAfter(
  { namespaces, forwards, tools, overrides }: Desired,
  actual: Actual,
  { after }: ForwardPlan,
  prune: boolean,
): ReadonlyMap<string, Labels> {
  const wanted = new Map(namespaces.map(({ name, labels }) => [name, labels]));
  const known = new Map(actual.namespaces.map(({ name, labels }) => [name, labels]));
  const homes = overrides.map(({ forward }) => after.get(forward)?.namespace);
  const named = [...forwards, ...tools, ...overrides].map(({ namespace }) => namespace);
  for (const name of [DEFAULT_NAMESPACE, ...named, ...homes]) {
    if (name !== undefined && !wanted.has(name)) wanted.set(name, prune ? {} : (known.get(name) ?? {}));
  }
  return wanted;
}

/** Namespaces to make or to label anew. */
export function createNamespaces(wanted: ReadonlyMap<string, Labels>, { namespaces }: Actual): Step[] {
  const known = new Map(namespaces.map(({ name, labels }) => [name, labels]));
  return [...wanted].flatMap(([name, labels]): Step[] => {
    const before = known.get(name);
    if (!before) {
      return [{ kind: 'namespace', action: 'create', name, labels, changes: changesOfNew({ labels }), notes: [] }];
    }
    const changes = changesBetween({ labels: { ...before } }, { labels });
    return changes.length === 0 ? [] : [{ kind: 'namespace', action: 'update', name, labels, changes, notes: [] }];
  });
}

/** All other namespaces, to be deleted after the steps `before`, with what is in them then. */
export function removeNamespaces(
  wanted: ReadonlyMap<string, Labels>,
  actual: Actual,
  before: readonly Step[],
  { after, deleted, fresh }: ForwardPlan,
): Step[] {
  const gone = actual.namespaces.map(({ name }) => name).filter((name) => !wanted.has(name));
  if (gone.length === 0) return [];

  const taken = takenOut(before);
  const contents = new Map(gone.map((name) => [name, { tools: 0, resources: 0, prompts: 0, forwards: 0 }]));
  const count = (namespace: string, what: keyof Contents): void => {
    const counts = contents.get(namespace);
    if (counts) counts[what]++;
  };
  for (const tool of actual.handMade)
    if (!taken.has(id('tool', tool.namespace, tool.name))) count(tool.namespace, 'tools');
  for (const { forward, upstreamName, namespace } of actual.discovered) {
    if (!deleted.has(forward) && !taken.has(id('override', forward, upstreamName))) count(namespace, 'tools');
  }
  for (const { kind, forward, namespace } of actual.others) {
    if (forward === undefined || !deleted.has(forward)) count(namespace, `${kind}s`);
  }
  for (const { name, namespace } of after.values()) if (!fresh.has(name)) count(namespace, 'forwards');
  return [...contents].map(([name, held]) => ({
    kind: 'namespace',
    action: 'delete',
    name,
    contents: held,
    changes: [],
    notes: contentsText({ ...held }) === '' ? [] : [`with all that is in it: ${contentsText({ ...held })}`],
  }));
}

/** Tools that steps delete, or move: a move goes to a namespace that stays. */
function takenOut(steps: readonly Step[]): Set<string> {
  return new Set(
    steps.flatMap((step) => {
      if (step.kind === 'tool' && step.action === 'delete') return [id('tool', step.namespace, step.name)];
      const moves = step.kind === 'override' && step.changes.some(({ member }) => member === 'namespace');
      return moves ? [id('override', step.forward, step.upstreamName)] : [];
    }),
  );
}

function id(...parts: readonly string[]): string {
  return JSON.stringify(parts);
}

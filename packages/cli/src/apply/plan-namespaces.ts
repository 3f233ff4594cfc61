import { DEFAULT_NAMESPACE, type Labels } from '@sluice/contract';
import type { CurrentState } from './actual.ts';
import type { DesiredState } from './desired.ts';
import type { ForwardPlan } from './plan-forwards.ts';
import { diffMembers, formatNamespaceContents, initialMembers, type NamespaceContents, type Step } from './step.ts';

/**
 * The namespaces that there will be. One that forwards and tools of the files are in need not be named itself: then it
 * keeps its labels, or with `prune` has none.
 */
export function resultingNamespaces(
  { namespaces, forwards, tools, overrides }: DesiredState,
  actual: CurrentState,
  { result }: ForwardPlan,
  prune: boolean,
): ReadonlyMap<string, Labels> {
  const wanted = new Map(namespaces.map(({ name, labels }) => [name, labels]));
  const known = new Map(actual.namespaces.map(({ name, labels }) => [name, labels]));
  const homes = overrides.map(({ forward }) => result.get(forward)?.namespace);
  const named = [...forwards, ...tools, ...overrides].map(({ namespace }) => namespace);
  for (const name of [DEFAULT_NAMESPACE, ...named, ...homes]) {
    if (name !== undefined && !wanted.has(name)) wanted.set(name, prune ? {} : (known.get(name) ?? {}));
  }
  return wanted;
}

/** Namespaces to make or to label anew. */
export function planNamespaces(wanted: ReadonlyMap<string, Labels>, { namespaces }: CurrentState): Step[] {
  const known = new Map(namespaces.map(({ name, labels }) => [name, labels]));
  return [...wanted].flatMap(([name, labels]): Step[] => {
    const before = known.get(name);
    if (!before) {
      return [{ kind: 'namespace', action: 'create', name, labels, changes: initialMembers({ labels }), notes: [] }];
    }
    const changes = diffMembers({ labels: { ...before } }, { labels });
    return changes.length === 0 ? [] : [{ kind: 'namespace', action: 'update', name, labels, changes, notes: [] }];
  });
}

/** All other namespaces, to be deleted after the steps `before`, with what is in them then. */
export function planNamespaceDeletions(
  wanted: ReadonlyMap<string, Labels>,
  actual: CurrentState,
  before: readonly Step[],
  { result, deleted, registered }: ForwardPlan,
): Step[] {
  const gone = actual.namespaces.map(({ name }) => name).filter((name) => !wanted.has(name));
  if (gone.length === 0) return [];

  const taken = removedTools(before);
  const contents = new Map(gone.map((name) => [name, { tools: 0, resources: 0, prompts: 0, forwards: 0 }]));
  const count = (namespace: string, what: keyof NamespaceContents): void => {
    const counts = contents.get(namespace);
    if (counts) counts[what]++;
  };
  for (const tool of actual.manual)
    if (!taken.has(identityKey('tool', tool.namespace, tool.name))) count(tool.namespace, 'tools');
  for (const { forward, upstreamName, namespace } of actual.discovered) {
    if (!deleted.has(forward) && !taken.has(identityKey('override', forward, upstreamName))) count(namespace, 'tools');
  }
  for (const { kind, forward, namespace } of actual.others) {
    if (forward === undefined || !deleted.has(forward)) count(namespace, `${kind}s`);
  }
  for (const { name, namespace } of result.values()) if (!registered.has(name)) count(namespace, 'forwards');
  return [...contents].map(([name, held]) => ({
    kind: 'namespace',
    action: 'delete',
    name,
    contents: held,
    changes: [],
    notes:
      formatNamespaceContents({ ...held }) === ''
        ? []
        : [`with all that is in it: ${formatNamespaceContents({ ...held })}`],
  }));
}

/** Tools that steps delete, or move: a move goes to a namespace that stays. */
function removedTools(steps: readonly Step[]): Set<string> {
  return new Set(
    steps.flatMap((step) => {
      if (step.kind === 'tool' && step.action === 'delete') return [identityKey('tool', step.namespace, step.name)];
      const moves = step.kind === 'override' && step.changes.some(({ member }) => member === 'namespace');
      return moves ? [identityKey('override', step.forward, step.upstreamName)] : [];
    }),
  );
}

function identityKey(...parts: readonly string[]): string {
  return JSON.stringify(parts);
}

import { DEFAULT_NAMESPACE, type Labels, type ServiceInput, serviceAddress, serviceKey } from '@sluice/contract';
import type { JsonObject } from '@sluice/protocol/json/parse';
import { counted } from '@sluice/protocol/text';
import { Failure } from '../failure.ts';
import type { CurrentService, CurrentState } from './current-state.ts';
import type { DesiredState, Section } from './desired-state.ts';
import { planEvaluators } from './plan-evaluators.ts';
import { type ForwardPlan, planForwards } from './plan-forwards.ts';
import { planManualTools, planOverrides } from './plan-tools.ts';
import { relocatedState } from './relocation.ts';
import {
  diffMembers,
  formatNamespaceContents,
  initialMembers,
  type NamespaceContents,
  type PlannedSteps,
  type Step,
} from './step.ts';
import { findConflicts, NameClaims, orderSteps } from './step-order.ts';
import { markWidening } from './widening.ts';

/**
 * Returns the namespaces after the plan, including those that forwards and tools of the files name: these keep their
 * labels, or with `prune` have none.
 */
function resultingNamespaces(
  { namespaces, forwards, tools, overrides }: DesiredState,
  actual: CurrentState,
  { result }: ForwardPlan,
  prune: boolean,
): ReadonlyMap<string, Labels> {
  const wanted = new Map(namespaces.map(({ name, labels }) => [name, labels]));
  const known = new Map(actual.namespaces.map(({ name, labels }) => [name, labels]));
  const forwardsByName = overrides.map(({ forward }) => result.get(forward)?.namespace);
  const named = [...forwards, ...tools, ...overrides].map(({ namespace }) => namespace);
  for (const name of [DEFAULT_NAMESPACE, ...named, ...forwardsByName]) {
    if (name !== undefined && !wanted.has(name)) wanted.set(name, prune ? {} : (known.get(name) ?? {}));
  }
  return wanted;
}

/** Plans the namespaces to create or relabel. */
function planNamespaces(wanted: ReadonlyMap<string, Labels>, { namespaces }: CurrentState): Step[] {
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

/** Plans the deletion of all other namespaces after the steps `before`, with their remaining contents. */
function planNamespaceDeletions(
  wanted: ReadonlyMap<string, Labels>,
  actual: CurrentState,
  before: readonly Step[],
  { result, deleted, registered }: ForwardPlan,
): Step[] {
  const removed = actual.namespaces.map(({ name }) => name).filter((name) => !wanted.has(name));
  if (removed.length === 0) return [];

  const taken = removedTools(before);
  const contents = new Map(removed.map((name) => [name, { tools: 0, resources: 0, prompts: 0, forwards: 0 }]));
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
  return [...contents].map(([name, counts]) => ({
    kind: 'namespace',
    action: 'delete',
    name,
    contents: counts,
    changes: [],
    notes:
      formatNamespaceContents({ ...counts }) === ''
        ? []
        : [`with its contents: ${formatNamespaceContents({ ...counts })}`],
  }));
}

/** Returns the tools that steps delete or move; the target of a move is always a remaining namespace. */
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

/** Plans the capability services. A POST replaces an entry with the same key. */
function planServices(
  { services: wanted }: DesiredState,
  { services: actual }: CurrentState,
  prune: boolean,
): PlannedSteps {
  const known = new Map(actual.map((entry) => [serviceKey(entry), entry]));
  const upserts = wanted.flatMap(({ entry }): Step[] => {
    const before = known.get(serviceKey(entry));
    const { name } = entry;
    if (!before) {
      return [
        { kind: 'service', action: 'create', name, entry, changes: initialMembers(serviceMembers(entry)), notes: [] },
      ];
    }
    const changes = diffMembers(serviceMembers(before), serviceMembers(entry));
    return changes.length === 0 ? [] : [{ kind: 'service', action: 'update', name, entry, changes, notes: [] }];
  });
  if (!prune) return { upserts, deletions: [] };
  const named = new Set(wanted.map(({ entry }) => serviceKey(entry)));
  const deletions = actual.filter((entry) => !named.has(serviceKey(entry)));
  return {
    upserts,
    deletions: deletions.map((entry) =>
      deletionStep(
        entry,
        wanted.map((each) => each.entry),
      ),
    ),
  };
}

function deletionStep(entry: CurrentService, wanted: readonly ServiceInput[]): Step {
  const reregister = wanted.filter(({ name, serviceType }) => name === entry.name && serviceType === entry.serviceType);
  const notes = reregister.length === 0 ? [] : ['other entries with its name and type are registered again'];
  return { kind: 'service', action: 'delete', name: entry.name, entry, reregister, changes: [], notes };
}

function serviceMembers({
  name,
  host,
  port,
  serviceType,
  serviceSubType,
  languageName,
  labels = {},
  id,
}: ServiceFields): JsonObject {
  return {
    name,
    address: serviceAddress({ host, port }),
    serviceType,
    ...(serviceSubType !== undefined && { serviceSubType }),
    ...(languageName !== undefined && { languageName }),
    labels,
    ...(id !== undefined && { id }),
  };
}

type ServiceFields = Omit<CurrentService, 'address' | 'labels'> & {
  readonly labels?: CurrentService['labels'] | undefined;
};

/** Settings of {@link plan}. */
export interface PlanOptions {
  /** Deletes entries that are not in the files, in the sections that the files contain. */
  readonly prune: boolean;
}

/**
 * Plans the steps from the current to the desired state, in executable order; empty when there is no difference.
 * Entries are created in the order namespaces, evaluators, services, manual tools, forwards, discovered tools and deleted in
 * reverse; a step that frees a name precedes the step that takes it. Throws {@link Failure} with everything in the
 * files that cannot be applied.
 */
export function plan(desired: DesiredState, actual: CurrentState, { prune }: PlanOptions): Step[] {
  const pruned = (section: Section): boolean => prune && desired.sections.has(section);
  const problems: string[] = [];
  const evaluators = planEvaluators(desired, actual, pruned('evaluators'));
  const services = planServices(desired, actual, pruned('services'));
  const forwards = planForwards(desired, actual, pruned('forwards'));
  const manual = planManualTools(desired, actual, pruned('tools'));
  const moved = relocatedState(actual, forwards.relocations);
  const overrides = planOverrides(desired, moved, forwards, pruned('tools'), problems);
  const steps = [...manual.upserts, ...forwards.upserts, ...overrides, ...manual.deletions, ...forwards.deletions];
  const claims = new NameClaims(steps, actual, forwards);
  // Duplicates in the files would be reported as conflicts again.
  if (problems.length === 0) problems.push(...findConflicts(steps, desired, claims));
  const [first, ...others] = problems;
  if (first !== undefined && others.length === 0) throw new Failure(first);
  if (first !== undefined) throw new Failure(counted(problems.length, 'problem'), { notes: problems });

  const ordered = orderSteps(steps, claims);
  const namespaces = resultingNamespaces(desired, actual, forwards, pruned('namespaces'));
  const before = [
    ...planNamespaces(namespaces, actual),
    ...evaluators.upserts,
    ...services.upserts,
    ...ordered,
    ...services.deletions,
    ...evaluators.deletions,
  ];
  const deletions = pruned('namespaces') ? planNamespaceDeletions(namespaces, moved, before, forwards) : [];
  return [...before, ...deletions].map((step) => markWidening(step, actual, forwards));
}

import { DEFAULT_NAMESPACE, type Labels, type ServiceInput, serviceAddress, serviceKey } from '@sluice/contract';
import type { JsonObject } from '@sluice/protocol/json/parse';
import { Failure } from '../failure.ts';
import type { CurrentService, CurrentState } from './current-state.ts';
import type { DesiredState, Section } from './desired-state.ts';
import { type ForwardPlan, planForwards } from './plan-forwards.ts';
import { planManualTools, planOverrides } from './plan-tools.ts';
import {
  diffMembers,
  formatNamespaceContents,
  initialMembers,
  type NamespaceContents,
  type PlannedSteps,
  type Step,
} from './step.ts';
import { findConflicts, NameClaims, orderSteps } from './step-order.ts';

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

/** What to do with capability services. A POST replaces one of the same key (decisions 4.1). */
export function planServices(
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
  const notes = reregister.length === 0 ? [] : ['others of its name and type are registered anew'];
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
  /** Of sections that the files have, what they do not name goes. */
  readonly prune: boolean;
}

/**
 * The steps that make the service what the files say, in the order in which they can be done; none when it is so
 * already. Things are made in the order namespaces, services, hand-made tools, forwards, discovered tools, and go in the
 * reverse one; what gives up a name that something else is to have goes before that.
 *
 * Throws {@link Failure} with everything in the files that cannot be made so.
 */
export function plan(desired: DesiredState, actual: CurrentState, { prune }: PlanOptions): Step[] {
  const pruned = (section: Section): boolean => prune && desired.sections.has(section);
  const problems: string[] = [];
  const services = planServices(desired, actual, pruned('services'));
  const forwards = planForwards(desired, actual, pruned('forwards'));
  const manual = planManualTools(desired, actual, pruned('tools'));
  const overrides = planOverrides(desired, actual, forwards, pruned('tools'), problems);
  const steps = [...manual.upserts, ...forwards.upserts, ...overrides, ...manual.deletions, ...forwards.deletions];
  const claims = new NameClaims(steps, actual, forwards);
  // What the files say twice is in its own way too: told once.
  if (problems.length === 0) problems.push(...findConflicts(steps, desired, claims));
  const [first, ...others] = problems;
  if (first !== undefined && others.length === 0) throw new Failure(first);
  if (first !== undefined) throw new Failure(`${problems.length} problems`, { notes: problems });

  const ordered = orderSteps(steps, claims);
  const namespaces = resultingNamespaces(desired, actual, forwards, pruned('namespaces'));
  const before = [...planNamespaces(namespaces, actual), ...services.upserts, ...ordered, ...services.deletions];
  return [...before, ...(pruned('namespaces') ? planNamespaceDeletions(namespaces, actual, before, forwards) : [])];
}

import { type StateChange, type StateInput, serviceKey } from '@sluice/contract';
import { applyForwards, type ForwardChecks, removeForward } from './desired-forwards.ts';
import { DesiredTools } from './desired-tools.ts';
import type { Draft } from './draft.ts';
import { DEFAULT_NAMESPACE, type Labels } from './entries.ts';
import { namespaceOf } from './operations.ts';
import { namespaceContents, registerService, removeNamespaceInSteps } from './operations-topology.ts';
import { serviceMembers } from './serialize.ts';
import { definedMembers, diffMembers, initialMembers, StateDifference } from './state-difference.ts';
import { forEachInSteps, type Steps } from './steps.ts';

/** How a desired state is applied. */
export interface DesiredStateOptions {
  /** Deletes what is not in its sections. */
  readonly prune: boolean;
  readonly checks: ForwardChecks;
}

/**
 * Makes the registry as it is desired, and returns what that has changed, in the order of a plan. OperationError UNPROCESSABLE with
 * everything that cannot be applied. Sections that are undefined stay unchanged.
 */
export function* applyStateInSteps(
  draft: Draft,
  state: StateInput,
  { prune, checks }: DesiredStateOptions,
): Steps<StateChange[]> {
  const difference = new StateDifference(draft);
  const wanted = yield* wantedNamespaces(draft, state);
  yield* rejectDuplicates(state, difference);
  // What follows depends on unique entries.
  difference.requireApplicable();
  yield* applyNamespaces(draft, wanted, { difference, prune: prune && state.namespaces !== undefined });
  yield* applyServices(draft, state, { difference, prune });
  const forwards = yield* applyForwards(draft, state.forwards ?? [], difference, checks);
  if (prune && state.forwards) {
    const names = new Set(state.forwards.map(({ name }) => name));
    const others = [...draft.forwards.keys()].filter((name) => !names.has(name));
    const notes = ['with its discovered entries'];
    for (const name of others) {
      const change: StateChange = { action: 'delete', kind: 'forward', name, members: [], notes };
      difference.add(change);
      yield* removeForward(draft, name, difference, change);
    }
  }
  const tools = new DesiredTools(draft, difference, forwards);
  yield* tools.apply(state.tools ?? [], prune && state.tools !== undefined);
  difference.requireApplicable();
  if (prune && state.namespaces) yield* removeNamespaces(draft, wanted, difference);
  difference.markPromoted();
  return inPlanOrder(difference.changes);
}

/**
 * The labels of the namespaces that are to exist by name: those of the state, and those that forwards and tools of it name;
 * undefined for the latter.
 */
function* wantedNamespaces(
  draft: Draft,
  { namespaces = [], forwards = [], tools = [] }: StateInput,
): Steps<ReadonlyMap<string, Labels | undefined>> {
  const wanted = new Map<string, Labels | undefined>(namespaces.map(({ name, labels = {} }) => [name, labels]));
  const homes = new Map(forwards.map(({ name, namespace = DEFAULT_NAMESPACE }) => [name, namespace]));
  const add = (name: string | undefined) => void (name !== undefined && wanted.getOrInsert(name, undefined));
  for (const name of [DEFAULT_NAMESPACE, ...homes.values()]) add(name);
  yield* forEachInSteps(tools, ({ forward, namespace }) => {
    if (typeof forward !== 'string') return add(namespace ?? DEFAULT_NAMESPACE);
    add(namespace);
    add(homes.get(forward) ?? draft.forwards.get(forward)?.namespace);
  });
  return wanted;
}

interface SectionOptions {
  readonly difference: StateDifference;
  readonly prune: boolean;
}

/** Creates and relabels namespaces. With `prune`, those that the section does not contain have no labels. */
function* applyNamespaces(
  draft: Draft,
  wanted: ReadonlyMap<string, Labels | undefined>,
  { difference, prune }: SectionOptions,
): Steps<void> {
  for (const [name, described] of wanted) {
    yield;
    const namespace = namespaceOf(name);
    const known = draft.namespaces.get(namespace);
    const labels = described ?? (prune ? {} : (known?.labels ?? {}));
    const change = { kind: 'namespace', name, notes: [] } as const;
    const members = known ? diffMembers({ labels: known.labels }, { labels }) : initialMembers({ labels });
    if (known && members.length === 0) continue;
    difference.add({ ...change, action: known ? 'update' : 'create', members });
    draft.putNamespace(namespace, labels);
  }
}

/** Registers capability services, and with `prune` removes those that the section does not contain. */
function* applyServices(draft: Draft, { services }: StateInput, { difference, prune }: SectionOptions): Steps<void> {
  const known = new Map(draft.services);
  const described = (entry: Parameters<typeof serviceKey>[0]) => {
    const { name, serviceType, serviceSubType, languageName } = entry;
    return { kind: 'service', name, serviceType, serviceSubType, languageName, notes: [] } as const;
  };
  const members = (entry: Parameters<typeof serviceMembers>[0]) => {
    const { host: _host, port: _port, ...shown } = serviceMembers(entry);
    return definedMembers(shown);
  };
  yield* forEachInSteps(services ?? [], (input) => {
    const before = known.get(serviceKey(input));
    known.delete(serviceKey(input));
    const after = { registrationId: 0, ...input, labels: input.labels ?? {} };
    const changes = before ? diffMembers(members(before), members(after)) : initialMembers(members(after));
    if (before && changes.length === 0) return;
    difference.add({ ...described(input), action: before ? 'update' : 'create', members: changes });
    registerService(draft, input);
  });
  if (!prune || !services) return;
  yield* forEachInSteps(known.values(), (entry) => {
    difference.add({ ...described(entry), action: 'delete', members: [] });
    draft.removeService(entry);
  });
}

/** Removes namespaces that are not wanted, with their contents. */
function* removeNamespaces(
  draft: Draft,
  wanted: ReadonlyMap<string, unknown>,
  difference: StateDifference,
): Steps<void> {
  const forwards = Map.groupBy(draft.forwards.values(), ({ namespace }) => namespace);
  for (const namespace of [...draft.namespaces.keys()].filter((name) => !wanted.has(name))) {
    yield;
    const inside = forwards.get(namespace) ?? [];
    const contents = namespaceContents(draft, namespace);
    const change: StateChange = {
      action: 'delete',
      kind: 'namespace',
      name: namespace,
      contents,
      members: [],
      notes: [],
    };
    difference.add(change);
    for (const { name } of inside) yield* removeForward(draft, name, difference, change);
    yield* removeNamespaceInSteps(draft, namespace, true);
  }
}

function* rejectDuplicates(state: StateInput, difference: StateDifference): Steps<void> {
  const { namespaces = [], forwards = [], services = [], tools = [], evaluators = [] } = state;
  function* check<T>(section: string, entries: readonly T[], key: (entry: T) => string): Steps<void> {
    const first = new Map<string, number>();
    yield* forEachInSteps(entries.entries(), ([index, entry]) => {
      const known = first.getOrInsert(key(entry), index);
      if (known !== index) difference.reject(`${section}.${index}`, `duplicate entry; first at ${section}.${known}`);
    });
  }
  yield* check('namespaces', namespaces, ({ name }) => name);
  yield* check('forwards', forwards, ({ name }) => name);
  yield* check('services', services, serviceKey);
  yield* check('tools', tools, ({ forward, upstreamName, name, namespace = DEFAULT_NAMESPACE }) =>
    JSON.stringify(forward === undefined ? [namespace, name] : [null, forward, upstreamName ?? name]),
  );
  yield* check('evaluators', evaluators, ({ name }) => name);
}

const ORDER = ['identity', 'namespace', 'evaluator', 'service', 'tool', 'forward', 'overrides'];
const ORDER_OF_DELETIONS = ['tool', 'forward', 'service', 'evaluator', 'namespace'];

/** Changes in the order of a plan: deletions last, and what contains others before these, or deleted after them. */
export function inPlanOrder(changes: readonly StateChange[]): StateChange[] {
  const place = ({ action, kind, forward }: StateChange): number =>
    action === 'delete'
      ? ORDER.length + ORDER_OF_DELETIONS.indexOf(kind)
      : ORDER.indexOf(forward === undefined ? kind : 'overrides');
  const groups = [...Map.groupBy(changes, place)].sort(([a], [b]) => a - b);
  return groups.flatMap(([, group]) => group);
}

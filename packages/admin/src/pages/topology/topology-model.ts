import type { Forward, Namespace, Service } from '../../api/queries.ts';
import { type Agent, type Counts, NO_CALLS, type Traffic } from '../../api/traffic.ts';
import { matches } from '../../ui/filters.tsx';
import { routeTo } from '../../ui/route.ts';

/** Kinds of nodes. */
export type NodeKind = 'agent' | 'namespace' | 'forward' | 'service';

/** State of a node: a word, and whether something has to be done. */
export interface NodeState {
  readonly label: string;
  readonly level: 'good' | 'pending' | 'bad';
}

/** An agent, namespace, forward or service; its counts are those of the last minute. */
export interface TopologyNode extends Counts {
  /** Unique: kind and name. */
  readonly id: string;
  readonly kind: NodeKind;
  readonly name: string;
  /** Page of the thing. */
  readonly href: string;
  /** Undefined for what has none. */
  readonly state: NodeState | undefined;
  /** Why it is in this state. */
  readonly reason: string | undefined;
  /** Ids of the nodes that it has edges with. */
  readonly neighbors: readonly string[];
}

/** Calls from one node to another; without calls, a connection that can be used. */
export interface TopologyEdge extends Counts {
  /** Ids of nodes. */
  readonly source: string;
  readonly target: string;
}

/** The whole graph. */
export interface Topology {
  readonly nodes: readonly TopologyNode[];
  readonly edges: readonly TopologyEdge[];
}

/** What a topology is made of. */
export interface TopologySources {
  readonly namespaces: readonly Namespace[];
  readonly forwards: readonly Forward[];
  readonly services: readonly Service[];
  readonly traffic: Traffic;
}

const HEALTH = {
  healthy: { label: 'Healthy', level: 'good' },
  pending: { label: 'Not checked yet', level: 'pending' },
  unhealthy: { label: 'Unhealthy', level: 'bad' },
  down: { label: 'Down', level: 'bad' },
} as const satisfies Record<Service['health'], NodeState>;

/** A node without counts and neighbors, which follow from the edges. */
type BareNode = Omit<TopologyNode, keyof Counts | 'neighbors'>;

/** Builds the graph of agents, namespaces, forwards and services. */
export function buildTopology({ namespaces, forwards, services, traffic }: TopologySources): Topology {
  const things = [
    ...namespaces.map(namespaceNode),
    ...forwards.map(forwardNode),
    // Several services may share a name; the call events tell only the name.
    ...Map.groupBy(services, ({ name }) => name)
      .values()
      .map(serviceNode),
  ];
  const agents = traffic.length === 0 ? [agentNode('anonymous')] : traffic.map(({ agent }) => agentNode(agent));
  const bare = new Map([...agents, ...things].map((node) => [node.id, node]));

  const edges = new Map<string, TopologyEdge>();
  const connect = (source: string, target: string, counts: Counts): void => {
    // Calls of the last minute may concern what has been deleted since.
    if (!bare.has(source) || !bare.has(target)) return;
    const key = JSON.stringify([source, target]);
    edges.set(key, { source, target, ...add(edges.get(key) ?? NO_CALLS, counts) });
  };
  for (const { name, namespace } of forwards) connect(idOf('namespace', namespace), idOf('forward', name), NO_CALLS);
  for (const { agent, namespace, target, ...counts } of traffic) {
    connect(agentNode(agent).id, idOf('namespace', namespace), counts);
    if (target) connect(idOf('namespace', namespace), idOf(target.kind, target.name), counts);
  }
  if (traffic.length === 0)
    for (const { name } of namespaces) connect(agentNode('anonymous').id, idOf('namespace', name), NO_CALLS);
  return { nodes: withCounts(bare, [...edges.values()]), edges: [...edges.values()] };
}

/** What the page is filtered by; empty for everything. */
export interface TopologyFilter {
  readonly search: string;
  readonly namespace: string;
  readonly state: string;
}

/** States to filter by. */
export const STATES = ['Needs attention', 'With calls', 'With errors'] as const;

/** Returns the nodes that a filter selects, in the order of the kinds and their names. */
export function selectNodes({ nodes }: Topology, { search, namespace, state }: TopologyFilter): TopologyNode[] {
  const inNamespace = idOf('namespace', namespace);
  return nodes
    .filter(
      (node) =>
        matches(search, node.name) &&
        (namespace === '' || node.id === inNamespace || node.neighbors.includes(inNamespace)) &&
        (state !== 'Needs attention' || node.state?.level === 'bad') &&
        (state !== 'With calls' || node.calls > 0) &&
        (state !== 'With errors' || node.errors > 0),
    )
    .sort((one, other) => ORDER[one.kind] - ORDER[other.kind] || one.name.localeCompare(other.name));
}

const ORDER: Readonly<Record<NodeKind, number>> = { agent: 0, namespace: 1, forward: 2, service: 3 };

/** Ids of nodes with their rank: first what needs attention, then the busiest. */
export type Ranking = ReadonlyMap<string, number>;

/** Ranks the nodes by what the user wants to see. */
export function rankNodes({ nodes }: Topology): Ranking {
  return new Map(nodes.toSorted(byImportance).map(({ id }, rank) => [id, rank]));
}

function byImportance(one: TopologyNode, other: TopologyNode): number {
  const isBad = ({ state }: TopologyNode) => (state?.level === 'bad' ? 1 : 0);
  return (
    isBad(other) - isBad(one) ||
    other.errors - one.errors ||
    other.calls - one.calls ||
    one.name.localeCompare(other.name)
  );
}

function withCounts(bare: ReadonlyMap<string, BareNode>, edges: readonly TopologyEdge[]): TopologyNode[] {
  const incoming = Map.groupBy(edges, ({ target }) => target);
  const outgoing = Map.groupBy(edges, ({ source }) => source);
  return [...bare.values()].map((node) => {
    const to = incoming.get(node.id) ?? [];
    const from = outgoing.get(node.id) ?? [];
    const counts = (node.kind === 'agent' ? from : to).reduce(add, NO_CALLS);
    return { ...node, ...counts, neighbors: [...to.map(({ source }) => source), ...from.map(({ target }) => target)] };
  });
}

function add(one: Counts, other: Counts): Counts {
  return {
    calls: one.calls + other.calls,
    errors: one.errors + other.errors,
    blocked: one.blocked + other.blocked,
    ms: one.ms + other.ms,
  };
}

function idOf(kind: NodeKind, name: string): string {
  return `${kind} ${name}`;
}

const AGENTS = {
  anonymous: { id: 'agents', name: 'Agents' },
  console: { id: 'console', name: 'This console' },
  others: { id: 'others', name: 'Other users' },
} as const;

function agentNode(agent: Agent): BareNode {
  const known = { kind: 'agent', state: undefined, reason: undefined } as const;
  if (typeof agent === 'string') return { ...known, ...AGENTS[agent], href: routeTo('/tool-calls') };
  const { user } = agent;
  return { ...known, id: idOf('agent', user), name: user, href: routeTo('/tool-calls', { user }) };
}

function namespaceNode({ name }: Namespace): BareNode {
  const href = routeTo('/namespaces', { open: name });
  return { id: idOf('namespace', name), kind: 'namespace', name, href, state: undefined, reason: undefined };
}

function forwardNode({ name, available, statusMessage }: Forward): BareNode {
  const state: NodeState = available ? { label: 'Available', level: 'good' } : { label: 'Unavailable', level: 'bad' };
  const href = routeTo('/forwards', { open: name });
  return { id: idOf('forward', name), kind: 'forward', name, href, state, reason: statusMessage };
}

function serviceNode([first, ...others]: readonly Service[]): BareNode {
  const name = first?.name ?? '';
  const all = first ? [first, ...others] : [];
  const worst = all.find(({ health }) => HEALTH[health].level === 'bad') ?? first;
  return {
    id: idOf('service', name),
    kind: 'service',
    name,
    href: routeTo('/services', { open: name }),
    state: worst && HEALTH[worst.health],
    reason: worst && `${worst.serviceType} at ${worst.address}`,
  };
}

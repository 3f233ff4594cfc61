import type { NodeKind, Ranking, Topology, TopologyEdge, TopologyNode } from './topology-model.ts';

/** Size of a node in pixels. */
export const NODE = { width: 224, height: 52 } as const;
const ROW = NODE.height + 12;
const COLUMN = NODE.width + 160;
/** Nodes of a column; more could not be read. */
const MAX_PER_COLUMN = 18;

/** Columns from left to right. */
const COLUMNS: readonly (readonly NodeKind[])[] = [['agent'], ['namespace'], ['forward', 'service']];

/** A node with its place. */
export interface PlacedNode {
  readonly node: TopologyNode;
  readonly x: number;
  readonly y: number;
}

/** The nodes and edges of the graph that are drawn. */
export interface Layout {
  readonly nodes: readonly PlacedNode[];
  readonly edges: readonly TopologyEdge[];
  readonly height: number;
  /** Nodes that were left out, by column. */
  readonly hidden: readonly number[];
}

/**
 * Places the selected nodes and their neighbors in three columns. Of too many nodes, the first of the ranking are shown.
 * Forwards and services are placed beside their namespace, so that edges rarely cross.
 */
export function layOut({ nodes, edges }: Topology, selected: readonly TopologyNode[], ranking: Ranking): Layout {
  const byRank = (one: TopologyNode, other: TopologyNode) =>
    (ranking.get(one.id) ?? Infinity) - (ranking.get(other.id) ?? Infinity) || one.name.localeCompare(other.name);
  const ids = new Set(selected.flatMap(({ id, neighbors }) => [id, ...neighbors]));
  const candidates = COLUMNS.map((kinds) => nodes.filter(({ id, kind }) => ids.has(id) && kinds.includes(kind)));
  const targets = (candidates[2] ?? []).toSorted(byRank).slice(0, MAX_PER_COLUMN);
  const wanted = new Set(targets.flatMap(({ neighbors }) => neighbors));
  const namespaces = firstOf(candidates[1] ?? [], wanted, byRank);
  const agents = firstOf(candidates[0] ?? [], new Set(), byRank);

  const order = new Map(namespaces.map(({ id }, index) => [id, index]));
  const positionOf = ({ neighbors }: TopologyNode) => Math.min(...neighbors.map((id) => order.get(id) ?? Infinity));
  const sorted = targets.toSorted(
    // Without a namespace in the picture, both positions are infinite and their difference is not a number.
    (one, other) => positionOf(one) - positionOf(other) || one.name.localeCompare(other.name),
  );
  const rows = Math.max(agents.length, namespaces.length, sorted.length);
  const placed = [...spread(agents, 0, rows), ...besideTargets(namespaces, sorted, rows), ...spread(sorted, 2, rows)];
  const placedIds = new Set(placed.map(({ node }) => node.id));
  return {
    nodes: placed,
    edges: edges.filter(({ source, target }) => placedIds.has(source) && placedIds.has(target)),
    height: rows * ROW,
    hidden: [agents, namespaces, sorted].map((column, index) => (candidates[index]?.length ?? 0) - column.length),
  };
}

/** Returns as many nodes as a column has, the wanted ones first, ordered by name. */
function firstOf(
  nodes: readonly TopologyNode[],
  wanted: ReadonlySet<string>,
  byRank: (one: TopologyNode, other: TopologyNode) => number,
): TopologyNode[] {
  const isWanted = ({ id }: TopologyNode) => (wanted.has(id) ? 1 : 0);
  return nodes
    .toSorted((one, other) => isWanted(other) - isWanted(one) || byRank(one, other))
    .slice(0, MAX_PER_COLUMN)
    .sort((one, other) => one.name.localeCompare(other.name));
}

/** Places nodes in the middle of a column. */
function spread(nodes: readonly TopologyNode[], column: number, rows: number): PlacedNode[] {
  const top = ((rows - nodes.length) * ROW) / 2;
  return nodes.map((node, index) => ({ node, x: column * COLUMN, y: top + index * ROW }));
}

/** Places each namespace at the middle of its targets, as far as those above leave room. */
function besideTargets(
  namespaces: readonly TopologyNode[],
  targets: readonly TopologyNode[],
  rows: number,
): PlacedNode[] {
  const top = ((rows - targets.length) * ROW) / 2;
  let next = 0;
  return namespaces.map((node, index) => {
    const own = targets.flatMap(({ neighbors }, row) => (neighbors.includes(node.id) ? [top + row * ROW] : []));
    const middle = own.length === 0 ? next : own.reduce((sum, y) => sum + y, 0) / own.length;
    // The ones below need room, too.
    const lowest = (rows - namespaces.length + index) * ROW;
    const y = Math.min(Math.max(middle, next), lowest);
    next = y + ROW;
    return { node, x: COLUMN, y };
  });
}

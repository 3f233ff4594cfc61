import type { NodeKind, Ranking, Topology, TopologyEdge, TopologyNode } from './topology-model.ts';

/** Sizes of the graph, in pixels. */
export interface Grid {
  readonly node: { readonly width: number; readonly height: number };
  /** Distances from node to node. */
  readonly row: number;
  readonly column: number;
  /** Nodes of a column; more could not be read. */
  readonly maxPerColumn: number;
  /** All columns fit into the frame in their real size, so that nothing has to be zoomed or moved. */
  readonly isNarrow: boolean;
}

/** Frames below this width are narrow. */
const NARROW = 700;
/** Distances in a narrow frame. */
const GAP = 20;
const MARGIN = 8;

/** Returns the sizes for a frame of this width; `scale` is the size of text, 1 by default. */
export function gridFor(frameWidth: number, scale: number): Grid {
  if (frameWidth < NARROW) {
    const width = Math.floor((frameWidth - 2 * MARGIN - 2 * GAP) / 3);
    // Names and states may have two lines.
    const height = 84 * scale;
    return { node: { width, height }, row: height + 12, column: width + GAP, maxPerColumn: 8, isNarrow: true };
  }
  const node = { width: 224, height: 52 * scale };
  return { node, row: node.height + 12, column: node.width + 160, maxPerColumn: 18, isNarrow: false };
}

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
  readonly grid: Grid;
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
export function layOut(
  { nodes, edges }: Topology,
  selected: readonly TopologyNode[],
  ranking: Ranking,
  grid: Grid,
): Layout {
  const byRank = (one: TopologyNode, other: TopologyNode) =>
    (ranking.get(one.id) ?? Infinity) - (ranking.get(other.id) ?? Infinity) || one.name.localeCompare(other.name);
  const ids = new Set(selected.flatMap(({ id, neighbors }) => [id, ...neighbors]));
  const candidates = COLUMNS.map((kinds) => nodes.filter(({ id, kind }) => ids.has(id) && kinds.includes(kind)));
  const targets = (candidates[2] ?? []).toSorted(byRank).slice(0, grid.maxPerColumn);
  const wanted = new Set(targets.flatMap(({ neighbors }) => neighbors));
  const first = (column: readonly TopologyNode[] = [], preferred: ReadonlySet<string> = new Set()) =>
    firstOf(column, preferred, byRank, grid.maxPerColumn);
  const namespaces = first(candidates[1], wanted);
  const agents = first(candidates[0]);

  const order = new Map(namespaces.map(({ id }, index) => [id, index]));
  const positionOf = ({ neighbors }: TopologyNode) => Math.min(...neighbors.map((id) => order.get(id) ?? Infinity));
  const sorted = targets.toSorted(
    // Without a namespace in the picture, both positions are infinite and their difference is not a number.
    (one, other) => positionOf(one) - positionOf(other) || one.name.localeCompare(other.name),
  );
  const rows = Math.max(agents.length, namespaces.length, sorted.length);
  const placed = [
    ...spread(agents, 0, rows, grid),
    ...besideTargets(namespaces, sorted, rows, grid),
    ...spread(sorted, 2, rows, grid),
  ];
  const placedIds = new Set(placed.map(({ node }) => node.id));
  return {
    grid,
    nodes: placed,
    edges: edges.filter(({ source, target }) => placedIds.has(source) && placedIds.has(target)),
    height: rows * grid.row,
    hidden: [agents, namespaces, sorted].map((column, index) => (candidates[index]?.length ?? 0) - column.length),
  };
}

/** Returns as many nodes as a column has, the wanted ones first, ordered by name. */
function firstOf(
  nodes: readonly TopologyNode[],
  wanted: ReadonlySet<string>,
  byRank: (one: TopologyNode, other: TopologyNode) => number,
  max: number,
): TopologyNode[] {
  const isWanted = ({ id }: TopologyNode) => (wanted.has(id) ? 1 : 0);
  return nodes
    .toSorted((one, other) => isWanted(other) - isWanted(one) || byRank(one, other))
    .slice(0, max)
    .sort((one, other) => one.name.localeCompare(other.name));
}

/** Places nodes in the middle of a column. */
function spread(nodes: readonly TopologyNode[], column: number, rows: number, grid: Grid): PlacedNode[] {
  const top = ((rows - nodes.length) * grid.row) / 2;
  return nodes.map((node, index) => ({ node, x: column * grid.column, y: top + index * grid.row }));
}

/** Places each namespace at the middle of its targets, as far as those above leave room. */
function besideTargets(
  namespaces: readonly TopologyNode[],
  targets: readonly TopologyNode[],
  rows: number,
  grid: Grid,
): PlacedNode[] {
  const top = ((rows - targets.length) * grid.row) / 2;
  let next = 0;
  return namespaces.map((node, index) => {
    const own = targets.flatMap(({ neighbors }, row) => (neighbors.includes(node.id) ? [top + row * grid.row] : []));
    const middle = own.length === 0 ? next : own.reduce((sum, y) => sum + y, 0) / own.length;
    // The ones below need room, too.
    const lowest = (rows - namespaces.length + index) * grid.row;
    const y = Math.min(Math.max(middle, next), lowest);
    next = y + grid.row;
    return { node, x: grid.column, y };
  });
}

import { CenterToFit, ZoomIn, ZoomOut } from '@carbon/icons-react';
import { IconButton } from '@carbon/react';
import {
  BaseEdge,
  type Edge,
  EdgeLabelRenderer,
  type EdgeProps,
  getBezierPath,
  Handle,
  type Node,
  type NodeProps,
  Panel,
  Position,
  ReactFlow,
  ReactFlowProvider,
  useReactFlow,
  useStore,
} from '@xyflow/react';
import '@xyflow/react/dist/base.css';
import './topology-graph.scss';
import { type FocusEvent, useEffect, useMemo } from 'react';
import { InertText, visibleText } from '../../ui/inert-text.tsx';
import { describeCalls, KINDS } from './describe.ts';
import type { Grid, Layout } from './layout.ts';
import type { TopologyEdge, TopologyNode } from './topology-model.ts';

type GraphNode = Node<{ readonly node: TopologyNode; readonly grid: Grid }, 'thing'>;
type GraphEdge = Edge<{ readonly edge: TopologyEdge; readonly isLabeled: boolean }, 'calls'>;

const NODE_TYPES = { thing: ThingNode };
const EDGE_TYPES = { calls: CallsEdge };
/** Smaller text could not be read. */
const ZOOM = { minZoom: 0.5, maxZoom: 1, padding: 0.02 } as const;
const REAL_SIZE = { minZoom: 1, maxZoom: 1, padding: 0 } as const;

/** The graph, which can be panned and zoomed where it does not fit; each node is a link. */
export default function TopologyGraph({ layout }: { readonly layout: Layout }) {
  return (
    <ReactFlowProvider>
      <Picture layout={layout} />
    </ReactFlowProvider>
  );
}

function Picture({ layout }: { readonly layout: Layout }) {
  const { fitView } = useReactFlow();
  const { node: nodeSize, isNarrow } = layout.grid;
  const zoom = isNarrow ? REAL_SIZE : ZOOM;
  const nodes = useMemo(() => layout.nodes.map((placed) => graphNode(placed, layout.grid)), [layout]);
  const edges = useMemo(() => layout.edges.map((edge) => graphEdge(edge, layout.grid)), [layout]);
  // Counts change every second; the view moves only when there are other nodes.
  const shown = JSON.stringify(layout.nodes.map(({ node, x, y }) => [node.id, x, y]));
  // With other nodes, the frame gets another size, too, and the library learns of it later.
  const size = useStore(({ width, height }) => `${width} × ${height}`);
  // biome-ignore lint/correctness/useExhaustiveDependencies: other nodes have to be fitted into the view again
  useEffect(() => void fitView(zoom), [fitView, zoom, shown, size]);
  return (
    <section
      className={`topology-graph ${isNarrow ? 'is-narrow' : ''}`}
      aria-label="Picture of the topology"
      style={{
        blockSize: isNarrow
          ? `${layout.height + 16}px`
          : `clamp(20rem, ${layout.height + 2 * nodeSize.height}px, 80vh)`,
      }}
    >
      <ReactFlow<GraphNode, GraphEdge>
        nodes={nodes}
        edges={edges}
        nodeTypes={NODE_TYPES}
        edgeTypes={EDGE_TYPES}
        fitView
        fitViewOptions={zoom}
        minZoom={0.2}
        maxZoom={2}
        nodesDraggable={false}
        nodesConnectable={false}
        nodesFocusable={false}
        edgesFocusable={false}
        elementsSelectable={false}
        disableKeyboardA11y
        // The wheel scrolls the page, and so does a finger where everything fits.
        panOnDrag={!isNarrow}
        zoomOnPinch={!isNarrow}
        zoomOnDoubleClick={!isNarrow}
        zoomOnScroll={false}
        preventScrolling={false}
        proOptions={{ hideAttribution: true }}
      >
        {!isNarrow && <Controls />}
      </ReactFlow>
    </section>
  );
}

function Controls() {
  const { fitView, zoomIn, zoomOut } = useReactFlow();
  return (
    <Panel position="top-right" className="topology-controls">
      <IconButton kind="ghost" size="sm" label="Zoom in" align="bottom-right" onClick={() => void zoomIn()}>
        <ZoomIn />
      </IconButton>
      <IconButton kind="ghost" size="sm" label="Zoom out" align="bottom-right" onClick={() => void zoomOut()}>
        <ZoomOut />
      </IconButton>
      <IconButton
        kind="ghost"
        size="sm"
        label="Show everything"
        align="bottom-right"
        onClick={() => void fitView({ ...ZOOM, minZoom: 0.2 })}
      >
        <CenterToFit />
      </IconButton>
    </Panel>
  );
}

function graphNode({ node, x, y }: Layout['nodes'][number], grid: Grid): GraphNode {
  const { width, height } = grid.node;
  return {
    id: node.id,
    type: 'thing',
    position: { x, y },
    data: { node, grid },
    width,
    height,
    // Otherwise only nodes that have just appeared would count when the view is fitted.
    measured: { width, height },
    // Ends of edges, which the library measures otherwise.
    handles: [
      { type: 'target', position: Position.Left, x: 0, y: height / 2 },
      { type: 'source', position: Position.Right, x: width, y: height / 2 },
    ],
  };
}

function graphEdge(edge: TopologyEdge, { isNarrow }: Grid): GraphEdge {
  const { source, target, calls, errors } = edge;
  return {
    id: JSON.stringify([source, target]),
    type: 'calls',
    source,
    target,
    // Between narrow columns there is no room; the nodes have the same counts.
    data: { edge, isLabeled: edge.calls > 0 && !isNarrow },
    className: errors > 0 ? 'has-errors' : calls > 0 ? 'has-calls' : '',
    // Busy edges are above idle ones.
    zIndex: calls > 0 ? 1 : 0,
    ariaLabel: visibleText([`${source} to ${target}`, describeCalls(edge)].filter(Boolean).join(', ')),
  };
}

function ThingNode({ data: { node, grid } }: NodeProps<GraphNode>) {
  const { getZoom, setCenter } = useReactFlow();
  const { kind, name, href, state } = node;
  // A node outside of the visible part moves into it when the keyboard selects it.
  const show = ({ currentTarget }: FocusEvent): void => {
    if (grid.isNarrow || !currentTarget.matches(':focus-visible')) return;
    const wrapper = currentTarget.closest('.react-flow__node');
    if (!(wrapper instanceof HTMLElement)) return;
    const { m41: x, m42: y } = new DOMMatrix(getComputedStyle(wrapper).transform);
    void setCenter(x + grid.node.width / 2, y + grid.node.height / 2, { zoom: getZoom() });
  };
  return (
    <a
      className={`topology-node nopan is-${kind} ${state ? `is-${state.level}` : ''}`}
      href={href}
      onFocus={show}
      title={visibleText(node.reason ?? name)}
    >
      <Handle type="target" position={Position.Left} isConnectable={false} />
      <span className="topology-kind">{`${KINDS[kind]} `}</span>
      <span className="topology-name">
        <InertText text={name} maxLength={80} />
      </span>
      <span className="topology-state">{[state?.label, describeCalls(node)].filter(Boolean).join(' · ')}</span>
      <Handle type="source" position={Position.Right} isConnectable={false} />
    </a>
  );
}

function CallsEdge(props: EdgeProps<GraphEdge>) {
  const [path, labelX, labelY] = getBezierPath(props);
  const { edge, isLabeled } = props.data ?? {};
  return (
    <>
      <BaseEdge id={props.id} path={path} style={{ strokeWidth: widthOf(edge?.calls ?? 0) }} />
      {edge && isLabeled && (
        <EdgeLabelRenderer>
          <span
            className={`topology-rate ${edge.errors > 0 ? 'has-errors' : ''}`}
            style={{ transform: `translate(-50%, -50%) translate(${labelX}px, ${labelY}px)` }}
          >
            {describeCalls(edge)}
          </span>
        </EdgeLabelRenderer>
      )}
    </>
  );
}

/** Ten times the calls make a line a pixel wider. */
function widthOf(callsPerMinute: number): number {
  return 1 + Math.log10(1 + callsPerMinute);
}

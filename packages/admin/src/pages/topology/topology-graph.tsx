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
import { type Layout, NODE } from './layout.ts';
import type { TopologyEdge, TopologyNode } from './topology-model.ts';

type GraphNode = Node<{ readonly node: TopologyNode }, 'thing'>;
type GraphEdge = Edge<{ readonly edge: TopologyEdge }, 'calls'>;

const NODE_TYPES = { thing: ThingNode };
const EDGE_TYPES = { calls: CallsEdge };
/** Smaller text could not be read. */
const ZOOM = { minZoom: 0.5, maxZoom: 1, padding: 0.02 } as const;
/** Ends of edges, which the library measures otherwise. */
const HANDLES = [
  { type: 'target', position: Position.Left, x: 0, y: NODE.height / 2 },
  { type: 'source', position: Position.Right, x: NODE.width, y: NODE.height / 2 },
] as const;

/** The graph, which can be panned and zoomed; each node is a link. */
export default function TopologyGraph({ layout }: { readonly layout: Layout }) {
  return (
    <ReactFlowProvider>
      <Picture layout={layout} />
    </ReactFlowProvider>
  );
}

function Picture({ layout }: { readonly layout: Layout }) {
  const { fitView, zoomIn, zoomOut } = useReactFlow();
  const nodes = useMemo(() => layout.nodes.map(graphNode), [layout]);
  const edges = useMemo(() => layout.edges.map(graphEdge), [layout]);
  // Counts change every second; the view moves only when there are other nodes.
  const shown = JSON.stringify(layout.nodes.map(({ node, x, y }) => [node.id, x, y]));
  // With other nodes, the frame gets another size, too, and the library learns of it later.
  const size = useStore(({ width, height }) => `${width} × ${height}`);
  // biome-ignore lint/correctness/useExhaustiveDependencies: other nodes have to be fitted into the view again
  useEffect(() => void fitView(ZOOM), [fitView, shown, size]);
  return (
    <section
      className="topology-graph"
      aria-label="Picture of the topology"
      style={{ blockSize: `clamp(20rem, ${layout.height + 2 * NODE.height}px, 80vh)` }}
    >
      <ReactFlow<GraphNode, GraphEdge>
        nodes={nodes}
        edges={edges}
        nodeTypes={NODE_TYPES}
        edgeTypes={EDGE_TYPES}
        fitView
        fitViewOptions={ZOOM}
        minZoom={0.2}
        maxZoom={2}
        nodesDraggable={false}
        nodesConnectable={false}
        nodesFocusable={false}
        edgesFocusable={false}
        elementsSelectable={false}
        disableKeyboardA11y
        // The wheel scrolls the page.
        zoomOnScroll={false}
        preventScrolling={false}
        proOptions={{ hideAttribution: true }}
      >
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
      </ReactFlow>
    </section>
  );
}

function graphNode({ node, x, y }: Layout['nodes'][number]): GraphNode {
  return {
    id: node.id,
    type: 'thing',
    position: { x, y },
    data: { node },
    width: NODE.width,
    height: NODE.height,
    handles: [...HANDLES],
  };
}

function graphEdge(edge: TopologyEdge): GraphEdge {
  const { source, target, calls, errors } = edge;
  return {
    id: JSON.stringify([source, target]),
    type: 'calls',
    source,
    target,
    data: { edge },
    className: errors > 0 ? 'has-errors' : calls > 0 ? 'has-calls' : '',
    // Busy edges are above idle ones.
    zIndex: calls > 0 ? 1 : 0,
    ariaLabel: visibleText([`${source} to ${target}`, describeCalls(edge)].filter(Boolean).join(', ')),
  };
}

function ThingNode({ data: { node } }: NodeProps<GraphNode>) {
  const { getZoom, setCenter } = useReactFlow();
  const { kind, name, href, state } = node;
  // A node outside of the visible part moves into it when the keyboard selects it.
  const show = ({ currentTarget }: FocusEvent): void => {
    if (!currentTarget.matches(':focus-visible')) return;
    const wrapper = currentTarget.closest('.react-flow__node');
    if (!(wrapper instanceof HTMLElement)) return;
    const { m41: x, m42: y } = new DOMMatrix(getComputedStyle(wrapper).transform);
    void setCenter(x + NODE.width / 2, y + NODE.height / 2, { zoom: getZoom() });
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
  const edge = props.data?.edge;
  return (
    <>
      <BaseEdge id={props.id} path={path} style={{ strokeWidth: widthOf(edge?.calls ?? 0) }} />
      {edge && edge.calls > 0 && (
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

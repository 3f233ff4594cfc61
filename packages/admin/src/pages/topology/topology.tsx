import { Tag } from '@carbon/react';
import { lazy, type RefCallback, Suspense, useEffect, useMemo, useState, useSyncExternalStore } from 'react';
import { useForwards, useNamespaces, useServices } from '../../api/queries.ts';
import { useToolCallEvents } from '../../api/tool-call-events.ts';
import { TrafficCounter } from '../../api/traffic.ts';
import { type Column, DataTable } from '../../ui/data-table.tsx';
import { ErrorBoundary } from '../../ui/error-boundary.tsx';
import { FilterBar } from '../../ui/filters.tsx';
import { InertText } from '../../ui/inert-text.tsx';
import { loadModule } from '../../ui/load-module.ts';
import { ErrorNotice, UnmatchedState } from '../../ui/notices.tsx';
import { PageFrame } from '../../ui/page-frame.tsx';
import { useParameter } from '../../ui/route.ts';
import { formatRate, KINDS } from './describe.ts';
import { gridFor, layOut } from './layout.ts';
import {
  buildTopology,
  type Ranking,
  rankNodes,
  STATES,
  selectNodes,
  type Topology as TopologyGraphData,
  type TopologyNode,
} from './topology-model.ts';

/** The graph library is large: the table does not wait for it. */
const TopologyGraph = lazy(() => loadModule(() => import('./topology-graph.tsx')));

const TAGS = { good: 'green', pending: 'gray', bad: 'red' } as const;

/** Time after which the busiest nodes are determined again. */
const RANKED_MS = 30_000;

const COLUMNS: readonly Column<TopologyNode>[] = [
  {
    id: 'name',
    header: 'Name',
    accessorFn: ({ name }) => name,
    cell: ({ row: { original } }) => (
      <a href={original.href}>
        <InertText text={original.name} maxLength={120} />
      </a>
    ),
  },
  { id: 'kind', header: 'Kind', accessorFn: ({ kind }) => KINDS[kind] },
  {
    id: 'state',
    header: 'State',
    accessorFn: ({ state }) => state?.label ?? '',
    cell: ({ row: { original } }) =>
      original.state ? <Tag type={TAGS[original.state.level]}>{original.state.label}</Tag> : '–',
  },
  { id: 'calls', header: 'Calls per minute', accessorFn: ({ calls }) => calls, cell: rateOf(({ calls }) => calls) },
  {
    id: 'errors',
    header: 'Errors per minute',
    accessorFn: ({ errors }) => errors,
    cell: rateOf(({ errors }) => errors),
  },
  {
    id: 'blocked',
    header: 'Blocked per minute',
    accessorFn: ({ blocked }) => blocked,
    cell: rateOf(({ blocked }) => blocked),
  },
  {
    id: 'mean',
    header: 'Mean duration in ms',
    accessorFn: ({ calls, ms }) => (calls === 0 ? 0 : ms / calls),
    cell: ({ row: { original } }) => (original.calls === 0 ? '–' : formatRate(original.ms / original.calls)),
  },
  { id: 'connections', header: 'Connections', accessorFn: ({ neighbors }) => neighbors.length },
];

/** `#/topology`: agents, namespaces, forwards and services with the calls between them. */
export default function Topology() {
  const namespaces = useNamespaces();
  const forwards = useForwards();
  const services = useServices();
  const [counter] = useState(() => new TrafficCounter());
  const { error: trafficError, reload } = useToolCallEvents(counter);
  const traffic = useSyncExternalStore(counter.subscribe, () => counter.traffic);
  const [search, setSearch] = useParameter('q');
  const [namespace, setNamespace] = useParameter('namespace');
  const [state, setState] = useParameter('state');
  const topology = useMemo(
    () =>
      namespaces.data &&
      forwards.data &&
      services.data &&
      buildTopology({ namespaces: namespaces.data, forwards: forwards.data, services: services.data, traffic }),
    [namespaces.data, forwards.data, services.data, traffic],
  );
  const selected = useMemo(
    () => topology && selectNodes(topology, { search, namespace, state }),
    [topology, search, namespace, state],
  );
  const ranking = useSteadyRanking(topology);
  const [width, frame] = useWidth();
  const layout = useMemo(() => {
    if (!topology || !selected || width === 0) return undefined;
    return layOut(topology, selected, ranking, gridFor(width, textScale()));
  }, [topology, selected, ranking, width]);
  const failed = [namespaces, forwards, services].find(({ error, data }) => error && !data);
  return (
    <PageFrame
      title="Topology"
      description="Agents, the namespaces that they call, and the forwards and services behind them, with the calls of the last minute."
    >
      {failed && (
        <ErrorNotice
          title="The topology could not be loaded"
          error={failed.error}
          onRetry={() => void failed.refetch()}
        />
      )}
      {trafficError !== undefined && (
        <ErrorNotice title="Recent calls could not be loaded" error={trafficError} onRetry={reload} />
      )}
      <FilterBar
        search={search}
        onSearch={setSearch}
        placeholder="Search agent, namespace, forward or service"
        selects={[
          {
            id: 'namespace',
            label: 'Namespace',
            all: 'All namespaces',
            options: namespaces.data?.map(({ name }) => name) ?? [],
            value: namespace,
            onChange: setNamespace,
          },
          { id: 'state', label: 'State', all: 'Any state', options: STATES, value: state, onChange: setState },
        ]}
      />
      <div ref={frame}>
        {layout && layout.nodes.length > 0 && (
          <ErrorBoundary title="The picture could not be shown">
            <Suspense>
              <TopologyGraph layout={layout} />
            </Suspense>
            <HiddenNodes hidden={layout.hidden} />
          </ErrorBoundary>
        )}
      </div>
      {(selected || !failed) && (
        <DataTable
          label="Topology"
          rows={selected}
          total={topology?.nodes.length}
          columns={COLUMNS}
          rowKey={({ id }) => id}
          empty={<UnmatchedState filters="the search or the filters" />}
        />
      )}
    </PageFrame>
  );
}

/** Returns the width of an element in pixels, 0 before it is known, and its `ref`. */
function useWidth(): readonly [number, RefCallback<HTMLElement>] {
  const [width, setWidth] = useState(0);
  const [observe] = useState(() => (element: HTMLElement | null) => {
    if (!element) return undefined;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    return () => observer.disconnect();
  });
  return [width, observe];
}

/** Size of the text that the user has chosen, in relation to the usual one. */
function textScale(): number {
  return Number.parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;
}

/** Ranks the nodes again when nodes or states change, but not at each call, so that the graph does not move. */
function useSteadyRanking(topology: TopologyGraphData | undefined): Ranking {
  const [period, setPeriod] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setPeriod((before) => before + 1), RANKED_MS);
    return () => clearInterval(timer);
  }, []);
  const states = JSON.stringify(topology?.nodes.map(({ id, state, calls }) => [id, state?.level, calls > 0]));
  // biome-ignore lint/correctness/useExhaustiveDependencies: see above
  return useMemo(() => (topology ? rankNodes(topology) : new Map()), [states, period]);
}

/** What the picture leaves out. */
function HiddenNodes({ hidden: [agents = 0, namespaces = 0, targets = 0] }: { readonly hidden: readonly number[] }) {
  const parts = [
    agents > 0 && `${agents} agents`,
    namespaces > 0 && `${namespaces} namespaces`,
    targets > 0 && `${targets} forwards and services`,
  ].filter(Boolean);
  if (parts.length === 0) return null;
  return (
    <p className="live-status" role="status">
      Not in the picture: {parts.join(', ')}. What needs attention and the busiest come first; the table has everything.
    </p>
  );
}

function rateOf(count: (node: TopologyNode) => number): NonNullable<Column<TopologyNode>['cell']> {
  return ({ row }) => formatRate(count(row.original));
}

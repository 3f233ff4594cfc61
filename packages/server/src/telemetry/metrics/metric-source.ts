import { type EventLoopUtilization, performance } from 'node:perf_hooks';
import { getHeapSpaceStatistics } from 'node:v8';
import type { EvaluatorMetrics, FilterMetrics, ServiceHealth } from '@sluice/contract';
import { residentBytes } from '../resident-memory.ts';
import type { ToolCallCount } from '../tool-calls/events.ts';
import type { Metric, NumberMetric, Series } from './instruments.ts';
import type { RequestMetrics } from './request-metrics.ts';
import type { HostCounts } from './service-metrics.ts';

/** Dependencies of {@link MetricSource}. */
export interface MetricSourceOptions {
  readonly requests: Pick<RequestMetrics, 'metrics'>;
  readonly state: ServiceState;
}

/** View of one reader, see {@link MetricSource.reader}. */
export interface MetricReading {
  /** Start of all counters, in milliseconds since the Unix epoch. */
  readonly startedAt: number;
  /** Returns the current metrics, without those that have no series. */
  read(): Metric[];
}

/** All metrics, independent of the format in which they are exported. */
export class MetricSource {
  readonly #requests: Pick<RequestMetrics, 'metrics'>;
  readonly #state: ServiceState;
  readonly #startedAt: number = Date.now();

  constructor({ requests, state }: MetricSourceOptions) {
    this.#requests = requests;
    this.#state = state;
  }

  /** Creates the view of one periodic reader; it sees the event loop utilization since its own previous reading. */
  reader(): MetricReading {
    const process = new ProcessMetrics();
    return {
      startedAt: this.#startedAt,
      read: () => {
        const all = [...this.#requests.metrics(), ...stateMetrics(this.#state), ...process.metrics()];
        return all.filter(({ series }) => series.length > 0);
      },
    };
  }
}

/** Current state of the service, read when metrics are collected. */
export interface ServiceState {
  /** Counts of filters by name. */
  filters(): Readonly<Record<string, FilterMetrics>>;
  /** Counts of evaluators since the start. */
  evaluators(): readonly EvaluatorState[];
  /** Configured evaluators; those that could not be loaded are not `loaded`. */
  activeEvaluators(): readonly { readonly name: string; readonly loaded: boolean }[];
  /** Host processes of actions. */
  hosts(): HostCounts;
  /** Numbers of served entries, without shadowed ones. */
  entries(): { readonly tool: number; readonly resource: number; readonly prompt: number };
  namespaces(): number;
  forwards(): readonly { readonly name: string; readonly available: boolean }[];
  /** Services, unique by name, type, engine and language. */
  services(): readonly RegisteredService[];
  /** Stored interactions, and the bytes of their bodies. */
  interactions(): { readonly count: number; readonly bytes: number };
  /** Counts of tool call events since the start. */
  toolCallEvents(): readonly ToolCallCount[];
  /** Number of calls in flight. */
  inFlightCalls(): number;
  /** Tasks whose end is not known, and those that have ended since the start, by outcome. */
  tasks(): { readonly open: number; readonly ended: Readonly<Record<string, number>> };
  /** Number of long-lived streams. */
  openStreams(): number;
  /** Number of dropped log lines. */
  droppedLines(): number;
  /** The database that replicas share; undefined without one. */
  database?(): DatabaseState | undefined;
}

/** A replica and its database. */
export interface DatabaseState {
  readonly isReachable: boolean;
  /** Seconds since the replica was live; 0 while it is. */
  readonly staleSeconds: number;
  /** Commits of this replica, and those that were made again because others had committed meanwhile. */
  readonly commits: number;
  readonly conflicts: number;
  /** Requests passed on to other replicas. */
  readonly passedOn: number;
}

/** Counts of one evaluator. */
export interface EvaluatorState {
  readonly name: string;
  readonly counts: EvaluatorMetrics;
}

/** A capability service and its health. */
export interface RegisteredService {
  readonly name: string;
  readonly serviceType: string;
  readonly serviceSubType?: string | undefined;
  readonly languageName?: string | undefined;
  readonly health: ServiceHealth;
}

/** Returns the state of the service as metrics. */
function stateMetrics(state: ServiceState): Metric[] {
  const { count, bytes } = state.interactions();
  return [
    ...filterMetrics(Object.entries(state.filters())),
    ...evaluatorMetrics(state.evaluators()),
    {
      name: 'sluice.evaluator.loaded',
      description: 'Whether the evaluator is loaded: 1 or 0',
      unit: '{evaluator}',
      kind: 'gauge',
      series: state.activeEvaluators().map(({ name, loaded }) => ({
        attributes: { 'sluice.evaluator': name },
        value: loaded ? 1 : 0,
      })),
    },
    ...hostMetrics(state.hosts()),
    {
      name: 'sluice.registry.entries',
      description: 'Served tools, resources and prompts',
      unit: '{entry}',
      kind: 'updowncounter',
      series: Object.entries(state.entries()).map(([kind, value]) => ({
        attributes: { 'sluice.entry.kind': kind },
        value,
      })),
    },
    upDownCounter('sluice.registry.namespaces', '{namespace}', 'Namespaces', state.namespaces()),
    {
      name: 'sluice.forward.available',
      description: 'Whether the forward is available: 1 or 0',
      unit: '{forward}',
      kind: 'gauge',
      series: state.forwards().map(({ name, available }) => ({
        attributes: { 'sluice.forward': name },
        value: available ? 1 : 0,
      })),
    },
    {
      name: 'sluice.service.healthy',
      description: 'Whether the capability service is healthy: 1 or 0; absent before the first probe',
      unit: '{service}',
      kind: 'gauge',
      series: state.services().flatMap(healthOf),
    },
    upDownCounter('sluice.interaction.records', '{interaction}', 'Stored interactions', count),
    upDownCounter('sluice.interaction.size', 'By', 'Size of the bodies of stored interactions', bytes),
    {
      name: 'sluice.tool_call.events',
      description: 'Tool call events',
      unit: '{event}',
      kind: 'counter',
      series: state.toolCallEvents().map(({ transport, type, outcome, category, count: value }) => ({
        attributes: {
          'sluice.transport': transport,
          'sluice.event.type': type,
          ...(outcome !== undefined && { 'sluice.outcome': outcome }),
          ...(category !== undefined && { 'error.type': category }),
        },
        value,
      })),
    },
    upDownCounter(
      'sluice.call.active',
      '{call}',
      'In-flight calls of upstreams and capability services',
      state.inFlightCalls(),
    ),
    upDownCounter('sluice.task.open', '{task}', 'Tasks whose end is not known', state.tasks().open),
    {
      name: 'sluice.task.ended',
      description: 'Tasks whose end became known',
      unit: '{task}',
      kind: 'counter',
      series: Object.entries(state.tasks().ended).map(([outcome, value]) => ({
        attributes: { 'sluice.task.outcome': outcome },
        value,
      })),
    },
    {
      name: 'sluice.log.dropped',
      description: 'Log lines dropped because the log was not read in time',
      unit: '{line}',
      kind: 'counter',
      series: [{ attributes: {}, value: state.droppedLines() }],
    },
    upDownCounter('sluice.stream.active', '{stream}', 'Long-lived streams', state.openStreams()),
    ...replicaMetrics(state.database?.()),
  ];
}

function replicaMetrics(database: DatabaseState | undefined): Metric[] {
  if (!database) return [];
  const one = (value: number) => [{ attributes: {}, value }];
  const { isReachable, staleSeconds, commits, conflicts, passedOn } = database;
  return [
    {
      name: 'sluice.replica.database.reachable',
      description: 'Whether the database that replicas share can be reached',
      unit: '{forward}',
      kind: 'gauge',
      series: one(isReachable ? 1 : 0),
    },
    {
      name: 'sluice.replica.stale',
      description: 'Time since others regarded this replica as live',
      unit: 's',
      kind: 'gauge',
      series: one(staleSeconds),
    },
    {
      name: 'sluice.replica.commits',
      description: 'Commits of this replica',
      unit: '{commit}',
      kind: 'counter',
      series: one(commits),
    },
    {
      name: 'sluice.replica.conflicts',
      description: 'Commits made again because other replicas had committed meanwhile',
      unit: '{commit}',
      kind: 'counter',
      series: one(conflicts),
    },
    {
      name: 'sluice.replica.passed_on',
      description: 'Requests passed on to other replicas',
      unit: '{request}',
      kind: 'counter',
      series: one(passedOn),
    },
  ];
}

function filterMetrics(filters: readonly (readonly [string, FilterMetrics])[]): Metric[] {
  return [
    {
      name: 'sluice.filter.requests',
      description: 'Requests of filters by outcome',
      unit: '{request}',
      kind: 'counter',
      series: filters.flatMap(([filter, counts]) => {
        const outcomes = {
          continue: counts.requests_continue,
          reject: counts.requests_reject,
          other: counts.requests_other,
          error: counts.errors,
        };
        return Object.entries(outcomes).map(([outcome, value]) => ({
          attributes: { 'sluice.filter': filter, 'sluice.filter.outcome': outcome },
          value,
        }));
      }),
    },
    {
      name: 'sluice.filter.duration',
      description: 'Time spent in filters',
      unit: 's',
      kind: 'counter',
      series: filters.map(([filter, { duration }]) => ({
        attributes: { 'sluice.filter': filter },
        value: duration.total_ms / 1000,
      })),
    },
  ];
}

function evaluatorMetrics(evaluators: readonly EvaluatorState[]): Metric[] {
  const each = (of: (evaluator: EvaluatorState) => Readonly<Record<string, number>>, attribute: string) =>
    evaluators.flatMap((evaluator) =>
      Object.entries(of(evaluator)).map(([key, value]) => ({
        attributes: { 'sluice.evaluator': evaluator.name, [attribute]: key },
        value,
      })),
    );
  const one = (of: (counts: EvaluatorMetrics) => number) =>
    evaluators.map(({ name, counts }) => ({ attributes: { 'sluice.evaluator': name }, value: of(counts) }));
  return [
    {
      name: 'sluice.evaluator.decisions',
      description: 'Evaluated requests by decision',
      unit: '{request}',
      kind: 'counter',
      series: each(({ counts }) => counts.decisions, 'sluice.evaluator.decision'),
    },
    {
      name: 'sluice.evaluator.failures',
      description: 'Evaluations without a decision by failure',
      unit: '{request}',
      kind: 'counter',
      series: each(
        ({ counts: { failures } }) => ({
          llm_failure: failures.llm_failure,
          action_failure: failures.action_failure,
          busy: failures.busy,
        }),
        'error.type',
      ),
    },
    {
      name: 'sluice.evaluator.llm.calls',
      description: 'LLM calls by outcome',
      unit: '{call}',
      kind: 'counter',
      series: each(
        ({ counts: { llm } }) => ({ success: llm.calls_success, failure: llm.calls_failure }),
        'sluice.evaluator.llm.outcome',
      ),
    },
    {
      name: 'sluice.evaluator.llm.duration',
      description: 'Time spent waiting for LLMs',
      unit: 's',
      kind: 'counter',
      series: one(({ llm }) => llm.duration.total_ms / 1000),
    },
    {
      name: 'sluice.evaluator.action.runs',
      description: 'Executions of actions',
      unit: '{run}',
      kind: 'counter',
      series: one(({ wasm }) => wasm.executions),
    },
    {
      name: 'sluice.evaluator.action.duration',
      description: 'Time spent waiting for actions',
      unit: 's',
      kind: 'counter',
      series: one(({ wasm }) => wasm.duration.total_ms / 1000),
    },
  ];
}

function hostMetrics({ running, idle, spare, waiting, started, ended }: HostCounts): Metric[] {
  const counter = (name: string, description: string, value: number): NumberMetric => ({
    name,
    description,
    unit: '{process}',
    kind: 'counter',
    series: [{ attributes: {}, value }],
  });
  return [
    {
      name: 'sluice.action.hosts',
      description: 'Host processes of actions by state',
      unit: '{process}',
      kind: 'updowncounter',
      series: Object.entries({ running, idle, spare }).map(([host, value]) => ({
        attributes: { 'sluice.action.host.state': host },
        value,
      })),
    },
    upDownCounter('sluice.action.waiting', '{run}', 'Runs of actions that wait for a host process', waiting),
    counter('sluice.action.hosts.started', 'Started host processes', started),
    counter('sluice.action.hosts.ended', 'Ended host processes: over a limit, crashed, or replaced', ended),
  ];
}

function healthOf({ name, serviceType, serviceSubType, languageName, health }: RegisteredService): Series<number>[] {
  if (health === 'pending') return [];
  const attributes = {
    'sluice.service': name,
    'sluice.service.type': serviceType,
    ...(serviceSubType !== undefined && { 'sluice.service.engine': serviceSubType }),
    ...(languageName !== undefined && { 'sluice.service.language': languageName }),
  };
  return [{ attributes, value: health === 'healthy' ? 1 : 0 }];
}

function upDownCounter(name: string, unit: string, description: string, value: number): NumberMetric {
  return { name, description, unit, kind: 'updowncounter', series: [{ attributes: {}, value }] };
}

/** Metrics of the process, read on demand: nothing is sampled continuously, as the delay of the event loop would require. */
class ProcessMetrics {
  #before: EventLoopUtilization = performance.eventLoopUtilization();

  /** Returns the current values; the utilization of the event loop is that since the previous call. */
  metrics(): Metric[] {
    const { user, system } = process.cpuUsage();
    const loop = performance.eventLoopUtilization();
    const rss = residentBytes();
    const { utilization } = performance.eventLoopUtilization(loop, this.#before);
    this.#before = loop;
    return [
      {
        name: 'process.cpu.time',
        description: 'CPU time of the process',
        unit: 's',
        kind: 'counter',
        series: [
          { attributes: { 'cpu.mode': 'user' }, value: user / 1e6 },
          { attributes: { 'cpu.mode': 'system' }, value: system / 1e6 },
        ],
      },
      {
        name: 'process.memory.usage',
        description: 'Resident memory of the process',
        unit: 'By',
        kind: 'updowncounter',
        series: rss === undefined ? [] : [{ attributes: {}, value: rss }],
      },
      {
        name: 'process.uptime',
        description: 'Time since the start of the process',
        unit: 's',
        kind: 'gauge',
        series: [{ attributes: {}, value: process.uptime() }],
      },
      {
        name: 'v8js.memory.heap.used',
        description: 'Used heap memory by heap space',
        unit: 'By',
        kind: 'updowncounter',
        series: getHeapSpaceStatistics().map(({ space_name, space_used_size }) => ({
          attributes: { 'v8js.heap.space.name': space_name },
          value: space_used_size,
        })),
      },
      {
        name: 'nodejs.eventloop.time',
        description: 'Time of the event loop by state',
        unit: 's',
        kind: 'counter',
        series: [
          { attributes: { 'nodejs.eventloop.state': 'active' }, value: loop.active / 1e3 },
          { attributes: { 'nodejs.eventloop.state': 'idle' }, value: loop.idle / 1e3 },
        ],
      },
      {
        name: 'nodejs.eventloop.utilization',
        description: 'Share of active time of the event loop since the previous reading',
        unit: '1',
        kind: 'gauge',
        series: [{ attributes: {}, value: utilization }],
      },
    ];
  }
}

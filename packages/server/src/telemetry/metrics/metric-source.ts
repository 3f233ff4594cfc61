import { type EventLoopUtilization, performance } from 'node:perf_hooks';
import { getHeapSpaceStatistics } from 'node:v8';
import type { EvaluatorMetrics, FilterMetrics, ServiceHealth } from '@sluice/contract';
import type { ToolCallCount } from '../tool-calls/events.ts';
import type { Metric, MetricAttributes, NumberMetric, Series } from './instruments.ts';
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
  readonly #options: MetricSourceOptions;
  readonly #startedAt: number = Date.now();

  constructor(options: MetricSourceOptions) {
    this.#options = options;
  }

  /** Creates the view of one periodic reader; it sees the event loop utilization since its own previous reading. */
  reader(): MetricReading {
    const process = new ProcessMetrics();
    return {
      startedAt: this.#startedAt,
      read: () => {
        const { requests, state } = this.#options;
        const all = [...requests.metrics(), ...stateMetrics(state), ...process.metrics()];
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
  const evaluators = state.activeEvaluators().map((one) => [one.name, Number(one.loaded)] as const);
  const loaded = by('sluice.evaluator', evaluators);
  const entries = by('sluice.entry.kind', Object.entries(state.entries()));
  const forwards = state.forwards().map((one) => [one.name, Number(one.available)] as const);
  const available = by('sluice.forward', forwards);
  const calls = state.inFlightCalls();
  const { open, ended } = state.tasks();
  const outcomes = by('sluice.task.outcome', Object.entries(ended));
  const dropped = state.droppedLines();
  return [
    ...filterMetrics(Object.entries(state.filters())),
    ...evaluatorMetrics(state.evaluators()),
    gauge('sluice.evaluator.loaded', '{evaluator}', 'Whether the evaluator is loaded: 1 or 0', loaded),
    ...hostMetrics(state.hosts()),
    upDownCounter('sluice.registry.entries', '{entry}', 'Served tools, resources and prompts', entries),
    upDownCounter('sluice.registry.namespaces', '{namespace}', 'Namespaces', state.namespaces()),
    gauge('sluice.forward.available', '{forward}', 'Whether the forward is available: 1 or 0', available),
    gauge(
      'sluice.service.healthy',
      '{service}',
      'Whether the capability service is healthy: 1 or 0; absent before the first probe',
      state.services().flatMap(healthOf),
    ),
    upDownCounter('sluice.interaction.records', '{interaction}', 'Stored interactions', count),
    upDownCounter('sluice.interaction.size', 'By', 'Size of the bodies of stored interactions', bytes),
    counter('sluice.tool_call.events', '{event}', 'Tool call events', state.toolCallEvents().map(eventsOf)),
    upDownCounter('sluice.call.active', '{call}', 'In-flight calls of upstreams and capability services', calls),
    upDownCounter('sluice.task.open', '{task}', 'Tasks whose end is not known', open),
    counter('sluice.task.ended', '{task}', 'Tasks whose end became known', outcomes),
    counter('sluice.log.dropped', '{line}', 'Log lines dropped because the log was not read in time', dropped),
    upDownCounter('sluice.stream.active', '{stream}', 'Long-lived streams', state.openStreams()),
    ...replicaMetrics(state.database?.()),
  ];
}

function replicaMetrics(database: DatabaseState | undefined): Metric[] {
  if (!database) return [];
  const { isReachable, staleSeconds, commits, conflicts, passedOn } = database;
  const reachable = 'Whether the database that replicas share can be reached: 1 or 0';
  const repeated = 'Commits made again because other replicas had committed meanwhile';
  return [
    gauge('sluice.replica.database.reachable', '{database}', reachable, Number(isReachable)),
    gauge('sluice.replica.stale', 's', 'Time since others regarded this replica as live', staleSeconds),
    counter('sluice.replica.commits', '{commit}', 'Commits of this replica', commits),
    counter('sluice.replica.conflicts', '{commit}', repeated, conflicts),
    counter('sluice.replica.passed_on', '{request}', 'Requests passed on to other replicas', passedOn),
  ];
}

function filterMetrics(filters: readonly (readonly [string, FilterMetrics])[]): Metric[] {
  const requests = filters.flatMap(([filter, counts]) => {
    const outcomes = {
      continue: counts.requests_continue,
      reject: counts.requests_reject,
      other: counts.requests_other,
      error: counts.errors,
    };
    return by('sluice.filter.outcome', Object.entries(outcomes), { 'sluice.filter': filter });
  });
  const seconds = filters.map(([filter, { duration }]) => [filter, duration.total_ms / 1000] as const);
  return [
    counter('sluice.filter.requests', '{request}', 'Requests of filters by outcome', requests),
    counter('sluice.filter.duration', 's', 'Time spent in filters', by('sluice.filter', seconds)),
  ];
}

function evaluatorMetrics(evaluators: readonly EvaluatorState[]): Metric[] {
  const each = (attribute: string, of: (counts: EvaluatorMetrics) => Readonly<Record<string, number>>) =>
    evaluators.flatMap(({ name, counts }) => by(attribute, Object.entries(of(counts)), { 'sluice.evaluator': name }));
  const one = (of: (counts: EvaluatorMetrics) => number) => {
    const values = evaluators.map(({ name, counts }) => [name, of(counts)] as const);
    return by('sluice.evaluator', values);
  };
  const decisions = each('sluice.evaluator.decision', (counts) => counts.decisions);
  const failures = each('error.type', ({ failures: { llm_failure, action_failure, busy } }) => {
    return { llm_failure, action_failure, busy };
  });
  const calls = each('sluice.evaluator.llm.outcome', ({ llm }) => {
    return { success: llm.calls_success, failure: llm.calls_failure };
  });
  const llmSeconds = one(({ llm }) => llm.duration.total_ms / 1000);
  const runs = one(({ wasm }) => wasm.executions);
  const actionSeconds = one(({ wasm }) => wasm.duration.total_ms / 1000);
  return [
    counter('sluice.evaluator.decisions', '{request}', 'Evaluated requests by decision', decisions),
    counter('sluice.evaluator.failures', '{request}', 'Evaluations without a decision by failure', failures),
    counter('sluice.evaluator.llm.calls', '{call}', 'LLM calls by outcome', calls),
    counter('sluice.evaluator.llm.duration', 's', 'Time spent waiting for LLMs', llmSeconds),
    counter('sluice.evaluator.action.runs', '{run}', 'Executions of actions', runs),
    counter('sluice.evaluator.action.duration', 's', 'Time spent waiting for actions', actionSeconds),
  ];
}

function hostMetrics({ running, idle, spare, waiting, started, ended }: HostCounts): Metric[] {
  const states = by('sluice.action.host.state', Object.entries({ running, idle, spare }));
  const reasons = 'Ended host processes: over a limit, crashed, or replaced';
  return [
    upDownCounter('sluice.action.hosts', '{process}', 'Host processes of actions by state', states),
    upDownCounter('sluice.action.waiting', '{run}', 'Runs of actions that wait for a host process', waiting),
    counter('sluice.action.hosts.started', '{process}', 'Started host processes', started),
    counter('sluice.action.hosts.ended', '{process}', reasons, ended),
  ];
}

function eventsOf({ transport, type, outcome, category, count }: ToolCallCount): Series<number> {
  const attributes = {
    'sluice.transport': transport,
    'sluice.event.type': type,
    ...(outcome !== undefined && { 'sluice.outcome': outcome }),
    ...(category !== undefined && { 'error.type': category }),
  };
  return { attributes, value: count };
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

/** Values that differ in one attribute, besides those that they have in common. */
function by(
  attribute: string,
  values: Iterable<readonly [string, number]>,
  common: MetricAttributes = {},
): Series<number>[] {
  return Array.from(values, ([key, value]) => ({ attributes: { ...common, [attribute]: key }, value }));
}

/** Makes metrics of a kind, with one series if that is a number. */
function metricsOf(kind: NumberMetric['kind']) {
  return (name: string, unit: string, description: string, values: number | Series<number>[]): NumberMetric => {
    const series = typeof values === 'number' ? [{ attributes: {}, value: values }] : values;
    return { name, description, unit, kind, series };
  };
}

const counter = metricsOf('counter');
const upDownCounter = metricsOf('updowncounter');
const gauge = metricsOf('gauge');

/**
 * Returns the resident memory of this process in bytes; undefined if it cannot be read, as when the process has no free file
 * descriptor.
 */
export function residentBytes(): number | undefined {
  try {
    return process.memoryUsage.rss();
  } catch {
    return undefined;
  }
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
    const cpu = by('cpu.mode', Object.entries({ user: user / 1e6, system: system / 1e6 }));
    const heap = getHeapSpaceStatistics().map((space) => [space.space_name, space.space_used_size] as const);
    const states = by('nodejs.eventloop.state', Object.entries({ active: loop.active / 1e3, idle: loop.idle / 1e3 }));
    const active = 'Share of active time of the event loop since the previous reading';
    return [
      counter('process.cpu.time', 's', 'CPU time of the process', cpu),
      upDownCounter('process.memory.usage', 'By', 'Resident memory of the process', rss ?? []),
      gauge('process.uptime', 's', 'Time since the start of the process', process.uptime()),
      upDownCounter('v8js.memory.heap.used', 'By', 'Used heap memory by heap space', by('v8js.heap.space.name', heap)),
      counter('nodejs.eventloop.time', 's', 'Time of the event loop by state', states),
      gauge('nodejs.eventloop.utilization', '1', active, utilization),
    ];
  }
}

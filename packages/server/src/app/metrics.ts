import type { EvaluatorMetrics, FilterMetrics, ServiceHealth } from '@sluice/contract';
import type { Identity } from '../identity/identity.ts';
import type { InteractionStore } from '../inference/interaction-store.ts';
import type { OpenStreams } from '../mcp/open-streams.ts';
import type { Kind, ServiceEntry } from '../registry/entries.ts';
import type { Metric, MetricAttributes, Series } from '../telemetry/metrics/instruments.ts';
import { by, counter, gauge, upDownCounter } from '../telemetry/metrics/metric-source.ts';
import type { HostCounts, ServiceMetrics } from '../telemetry/metrics/service-metrics.ts';
import type { ToolCallCount, ToolCallEvents } from '../telemetry/tool-calls/events.ts';
import type { Forwards } from '../upstreams/forwards.ts';
import type { ServiceHealthMonitor } from '../upstreams/grpc/health.ts';
import type { InFlightCalls } from '../upstreams/in-flight-calls.ts';
import type { TaskEvents } from '../upstreams/mcp/tasks/events.ts';
import type { Tasks } from '../upstreams/mcp/tasks/tasks.ts';
import type { Replica } from './replica.ts';

/** The parts of the service whose state is exported. */
export interface MeasuredParts {
  readonly registry: {
    readonly current: {
      servedCount(kind: Kind): number;
      readonly namespaces: Pick<ReadonlyMap<string, unknown>, 'size'>;
      readonly forwards: Pick<ReadonlyMap<string, unknown>, 'keys'>;
      readonly services: { readonly all: readonly ServiceEntry[] };
    };
  };
  readonly forwards: Pick<Forwards, 'status'>;
  readonly serviceHealth: Pick<ServiceHealthMonitor, 'get'>;
  readonly metrics: Pick<ServiceMetrics, 'snapshot'>;
  readonly evaluators: {
    readonly current: {
      readonly list: readonly { readonly definition: { readonly name: string } }[];
      readonly skipped: readonly string[];
    };
  };
  readonly interactions: Pick<InteractionStore, 'length' | 'bodyBytes'>;
  readonly toolCalls: { readonly counts: Pick<ToolCallEvents['counts'], 'all'> };
  readonly calls: Pick<InFlightCalls, 'size'>;
  readonly tasks: Pick<Tasks, 'openCount'>;
  readonly taskEvents: Pick<TaskEvents, 'ended'>;
  readonly openStreams: Pick<OpenStreams, 'size'>;
  readonly droppedLines: () => number;
  readonly identity?: Pick<Identity, 'ignored' | 'keys'>;
  /** Undefined for a single process. */
  readonly replica?: Pick<Replica, 'shared' | 'handedOff'> | undefined;
}

/** Returns the metrics of the state of the service. Those of requests are counted by telemetry. */
export function stateMetrics(parts: MeasuredParts): Metric[] {
  const { registry, forwards, serviceHealth, evaluators, interactions, toolCalls, calls, tasks, taskEvents } = parts;
  const { current } = registry;
  const counted = parts.metrics.snapshot();
  const loaded = [
    ...evaluators.current.list.map(({ definition: { name } }) => [name, 1] as const),
    ...evaluators.current.skipped.map((name) => [name, 0] as const),
  ];
  const entries = (['tool', 'resource', 'prompt'] as const).map((kind) => [kind, current.servedCount(kind)] as const);
  const available = Array.from(
    current.forwards.keys(),
    (name) => [name, Number(forwards.status(name).available)] as const,
  );
  const events = toolCalls.counts.all().map(eventsOf);
  const healthy = current.services.all.flatMap((entry) => healthOf(entry, serviceHealth.get(entry)));
  const ended = by('sluice.task.outcome', Object.entries(taskEvents.ended));
  return [
    ...filterMetrics(Object.entries(counted.filters)),
    ...evaluatorMetrics(Object.entries(counted.evaluators)),
    gauge(
      'sluice.evaluator.loaded',
      '{evaluator}',
      'Whether the evaluator is loaded: 1 or 0',
      by('sluice.evaluator', loaded),
    ),
    ...hostMetrics(counted.hosts),
    upDownCounter(
      'sluice.registry.entries',
      '{entry}',
      'Served tools, resources and prompts',
      by('sluice.entry.kind', entries),
    ),
    upDownCounter('sluice.registry.namespaces', '{namespace}', 'Namespaces', current.namespaces.size),
    gauge(
      'sluice.forward.available',
      '{forward}',
      'Whether the forward is available: 1 or 0',
      by('sluice.forward', available),
    ),
    gauge(
      'sluice.service.healthy',
      '{service}',
      'Whether the capability service is healthy: 1 or 0; absent before the first probe',
      healthy,
    ),
    upDownCounter('sluice.interaction.records', '{interaction}', 'Stored interactions', interactions.length),
    upDownCounter('sluice.interaction.size', 'By', 'Size of the bodies of stored interactions', interactions.bodyBytes),
    counter('sluice.tool_call.events', '{event}', 'Tool call events', events),
    upDownCounter('sluice.call.active', '{call}', 'In-flight calls of upstreams and capability services', calls.size),
    upDownCounter('sluice.task.open', '{task}', 'Tasks whose end is not known', tasks.openCount),
    counter('sluice.task.ended', '{task}', 'Tasks whose end became known', ended),
    counter(
      'sluice.log.dropped',
      '{line}',
      'Log lines dropped because the log was not read in time',
      parts.droppedLines(),
    ),
    upDownCounter('sluice.stream.active', '{stream}', 'Long-lived streams', parts.openStreams.size),
    ...identityMetrics(parts),
    ...replicaMetrics(parts),
  ];
}

function identityMetrics({ identity }: MeasuredParts): Metric[] {
  if (!identity) return [];
  const { ignored, keys } = identity;
  const isIgnored = 'Requests whose identity headers were ignored, as their peer is no trusted proxy';
  const lastUsed = keys.map(({ settings: { name }, lastUsedAt }) => [name, lastUsedAt] as const);
  const expires = keys.map(({ settings: { name }, authenticated: { expiresAt } }) => [name, expiresAt] as const);
  const used = 'Time of the last use of the key in this process; absent before';
  return [
    ...(ignored === undefined ? [] : [counter('sluice.identity.ignored', '{request}', isIgnored, ignored)]),
    gauge('sluice.key.last_use.timestamp', 's', used, timesOf(lastUsed)),
    gauge('sluice.key.expiry.timestamp', 's', 'Time from which the key is rejected', timesOf(expires)),
  ];
}

/** The latest time of each key in Unix seconds: a key that is being exchanged has two. */
function timesOf(times: readonly (readonly [key: string, ms: number | undefined])[]): Series<number>[] {
  const latest = new Map<string, number>();
  for (const [key, ms] of times) if (ms !== undefined) latest.set(key, Math.max(latest.get(key) ?? 0, ms / 1_000));
  return by('sluice.key', latest);
}

function replicaMetrics({ replica }: MeasuredParts): Metric[] {
  if (!replica) return [];
  const { counts, isConnected, members } = replica.shared;
  const reachable = 'Whether the database that replicas share can be reached: 1 or 0';
  const stale = 'Time since others regarded this replica as live';
  const repeated = 'Commits made again because other replicas had committed meanwhile';
  return [
    gauge('sluice.replica.database.reachable', '{database}', reachable, Number(isConnected)),
    gauge('sluice.replica.stale', 's', stale, members.staleMs / 1000),
    counter('sluice.replica.commits', '{commit}', 'Commits of this replica', counts.commits),
    counter('sluice.replica.conflicts', '{commit}', repeated, counts.conflicts),
    counter('sluice.replica.handed_off', '{request}', 'Requests handed off to other replicas', replica.handedOff),
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
    return by('sluice.filter.outcome', Object.entries(outcomes), filterAttributes(filter));
  });
  const seconds = filters.map(([filter, { duration }]) => {
    return { attributes: filterAttributes(filter), value: duration.total_ms / 1000 };
  });
  return [
    counter('sluice.filter.requests', '{request}', 'Requests of filters by outcome', requests),
    counter('sluice.filter.duration', 's', 'Time spent in filters', seconds),
  ];
}

/** Parts of a filter are the methods that it serves. */
function filterAttributes(name: string): MetricAttributes {
  const [filter = '', method] = name.split(' ');
  return { 'sluice.filter': filter, ...(method !== undefined && { 'mcp.method.name': method }) };
}

function evaluatorMetrics(evaluators: readonly (readonly [string, EvaluatorMetrics])[]): Metric[] {
  const each = (attribute: string, of: (counts: EvaluatorMetrics) => Readonly<Record<string, number>>) =>
    evaluators.flatMap(([name, counts]) => by(attribute, Object.entries(of(counts)), { 'sluice.evaluator': name }));
  const one = (of: (counts: EvaluatorMetrics) => number) => {
    const values = evaluators.map(([name, counts]) => [name, of(counts)] as const);
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

function healthOf(entry: ServiceEntry, health: ServiceHealth): Series<number>[] {
  const { name, serviceType, serviceSubType, languageName } = entry;
  if (health === 'pending') return [];
  const attributes = {
    'sluice.service': name,
    'sluice.service.type': serviceType,
    ...(serviceSubType !== undefined && { 'sluice.service.engine': serviceSubType }),
    ...(languageName !== undefined && { 'sluice.service.language': languageName }),
  };
  return [{ attributes, value: health === 'healthy' ? 1 : 0 }];
}

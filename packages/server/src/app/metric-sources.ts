import type { InteractionStore } from '../inference/interaction-store.ts';
import type { OpenStreams } from '../mcp/open-streams.ts';
import type { Evaluators } from '../policy/evaluators.ts';
import type { Registry } from '../registry/registry.ts';
import type { DatabaseState, ServiceState } from '../telemetry/metrics/metric-source.ts';
import type { ServiceMetrics } from '../telemetry/metrics/service-metrics.ts';
import type { ToolCallEvents } from '../telemetry/tool-calls/events.ts';
import type { Forwards } from '../upstreams/forwards.ts';
import type { ServiceHealthMonitor } from '../upstreams/grpc/health.ts';
import type { InFlightCalls } from '../upstreams/in-flight-calls.ts';
import type { TaskEvents } from '../upstreams/mcp/tasks/events.ts';
import type { Tasks } from '../upstreams/mcp/tasks/tasks.ts';

/** The parts of the service that provide metrics. */
export interface ServiceStateParts {
  readonly registry: Pick<Registry, 'current'>;
  readonly forwards: Pick<Forwards, 'status'>;
  readonly serviceHealth: Pick<ServiceHealthMonitor, 'get'>;
  readonly evaluators: Pick<Evaluators, 'current'>;
  readonly metrics: Pick<ServiceMetrics, 'snapshot' | 'evaluators' | 'hosts'>;
  readonly interactions: Pick<InteractionStore, 'length' | 'bodyBytes'>;
  readonly toolCalls: Pick<ToolCallEvents, 'counts'>;
  readonly calls: Pick<InFlightCalls, 'size'>;
  readonly tasks: Pick<Tasks, 'openCount'>;
  readonly taskEvents: Pick<TaskEvents, 'ended'>;
  readonly openStreams: Pick<OpenStreams, 'size'>;
  /** Number of lost log lines. */
  readonly droppedLines: () => number;
  readonly database: () => DatabaseState | undefined;
}

/** Metrics that telemetry cannot collect by itself. */
export function serviceState(parts: ServiceStateParts): ServiceState {
  const { registry, forwards, serviceHealth, evaluators, metrics, interactions, toolCalls } = parts;
  const { calls, tasks, taskEvents, openStreams, droppedLines, database } = parts;
  return {
    filters: () => metrics.snapshot().filters,
    evaluators: () =>
      Array.from(metrics.evaluators, ([name, counters]) => ({
        name,
        counts: counters.snapshot(),
      })),
    activeEvaluators: () => [
      ...evaluators.current.list.map(({ definition }) => ({ name: definition.name, loaded: true })),
      ...evaluators.current.skipped.map((name) => ({ name, loaded: false })),
    ],
    hosts: () => metrics.hosts,
    entries: () => ({
      tool: registry.current.servedCount('tool'),
      resource: registry.current.servedCount('resource'),
      prompt: registry.current.servedCount('prompt'),
    }),
    namespaces: () => registry.current.namespaces.size,
    forwards: () =>
      Array.from(registry.current.forwards.keys(), (name) => ({ name, available: forwards.status(name).available })),
    services: () => registry.current.services.all.map((entry) => ({ ...entry, health: serviceHealth.get(entry) })),
    interactions: () => ({ count: interactions.length, bytes: interactions.bodyBytes }),
    toolCallEvents: () => toolCalls.counts.all(),
    inFlightCalls: () => calls.size,
    tasks: () => ({ open: tasks.openCount, ended: taskEvents.ended }),
    openStreams: () => openStreams.size,
    droppedLines,
    database,
  };
}

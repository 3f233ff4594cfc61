import type { InteractionStore } from '../inference/interaction-store.ts';
import type { OpenStreams } from '../mcp/long-streams.ts';
import type { Evaluators } from '../policy/evaluator-set.ts';
import type { Kind } from '../registry/entries.ts';
import type { Registry } from '../registry/registry.ts';
import type { ServiceMetrics, ServiceState } from '../telemetry/metrics/service-metrics.ts';
import type { ToolCallEvents } from '../telemetry/tool-calls/events.ts';
import type { ServiceHealthMonitor } from '../upstreams/grpc/health.ts';
import type { Forwards } from '../upstreams/mcp/forwards.ts';
import type { InFlightCall, InFlightCalls } from '../upstreams/mcp/relay/in-flight.ts';

/** The parts of the service that metrics are asked of. */
export interface ServiceStateParts {
  readonly registry: Pick<Registry, 'current'>;
  readonly forwards: Pick<Forwards, 'status'>;
  readonly serviceHealth: Pick<ServiceHealthMonitor, 'of'>;
  readonly evaluators: Pick<Evaluators, 'current'>;
  readonly metrics: Pick<ServiceMetrics, 'snapshot' | 'evaluators'>;
  readonly interactions: Pick<InteractionStore, 'length' | 'bodyBytes'>;
  readonly toolCalls: Pick<ToolCallEvents, 'counts'>;
  readonly calls: Pick<InFlightCalls<InFlightCall>, 'size'>;
  readonly longStreams: Pick<OpenStreams, 'size'>;
  /** How many lines the log has lost. */
  readonly droppedLines: () => number;
}

/** What metrics ask of the service, which telemetry itself knows nothing of. */
export function serviceState(parts: ServiceStateParts): ServiceState {
  const { registry, forwards, serviceHealth, evaluators, metrics, interactions, toolCalls } = parts;
  const { calls, longStreams, droppedLines } = parts;
  const served = (kind: Kind): number =>
    registry.current.namespaces.values().reduce((sum, { shelves }) => sum + shelves[kind].entries.length, 0);
  return {
    filters: () => metrics.snapshot().filters,
    evaluators: () =>
      Array.from(metrics.evaluators, ([name, counters]) => ({
        name,
        counts: counters.snapshot(),
        failures: counters.failures,
      })),
    activeEvaluators: () => [
      ...evaluators.current.list.map(({ definition }) => ({ name: definition.name, loaded: true })),
      ...evaluators.current.leftOut.map((name) => ({ name, loaded: false })),
    ],
    entries: () => ({ tool: served('tool'), resource: served('resource'), prompt: served('prompt') }),
    namespaces: () => registry.current.namespaces.size,
    forwards: () =>
      Array.from(registry.current.forwards.keys(), (name) => ({ name, available: forwards.status(name).available })),
    services: () => registry.current.services.all.map((entry) => ({ ...entry, health: serviceHealth.of(entry) })),
    interactions: () => ({ count: interactions.length, bytes: interactions.bodyBytes }),
    toolCallEvents: () => toolCalls.counts.all(),
    callsUnderWay: () => calls.size,
    openStreams: () => longStreams.size,
    droppedLines,
  };
}

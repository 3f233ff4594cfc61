import type { LongStreams } from '../answer/long-streams.ts';
import type { Provisioning } from '../bridge/provisioning.ts';
import type { HealthOfServices } from '../bridge/service-health.ts';
import type { NamespaceBindings } from '../evaluators/bindings.ts';
import type { Evaluators } from '../evaluators/evaluators.ts';
import type { Forwards } from '../forwards/forwards.ts';
import type { InteractionStore } from '../inference/interaction-store.ts';
import type { InferenceSettings } from '../inference/settings.ts';
import type { Registry } from '../registry/registry.ts';
import type { MetricSource } from '../telemetry/metrics/metric-source.ts';
import type { ServiceMetrics } from '../telemetry/metrics/service-metrics.ts';
import type { ToolCallEvents } from '../telemetry/tool-calls/tool-call-events.ts';

/** What the routes of the management API work on. */
export interface ManagementContext {
  readonly registry: Registry;
  readonly forwards: Pick<Forwards, 'add' | 'refresh' | 'remove' | 'removed' | 'status'>;
  readonly serviceHealth: Pick<HealthOfServices, 'of'>;
  readonly provisioning: Pick<Provisioning, 'provision'>;
  readonly evaluators: Pick<
    Evaluators,
    'activate' | 'activeRevision' | 'connections' | 'current' | 'replace' | 'revision' | 'revisions'
  >;
  readonly bindings: Pick<NamespaceBindings, 'delete' | 'list' | 'set'>;
  readonly metrics: Pick<ServiceMetrics, 'snapshot'>;
  /** All metrics, for collectors. */
  readonly metricSource: MetricSource;
  readonly toolCalls: Pick<ToolCallEvents, 'recent' | 'listen'>;
  readonly interactions: Pick<InteractionStore, 'list' | 'clear'>;
  readonly inference: InferenceSettings;
  readonly longStreams: Pick<LongStreams, 'add'>;
  /** Whether the service takes work: loaded, listening and not shutting down. */
  readonly ready: () => boolean;
}

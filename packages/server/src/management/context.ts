import type { Forwards } from '../forwards/forwards.ts';
import type { Registry } from '../registry/registry.ts';
import type { ServiceMetrics } from '../telemetry/metrics.ts';

/** What the routes of the management API work on. */
export interface ManagementContext {
  readonly registry: Registry;
  readonly forwards: Pick<Forwards, 'add' | 'refresh' | 'remove' | 'removed' | 'status'>;
  readonly metrics: Pick<ServiceMetrics, 'snapshot'>;
  /** Whether the service takes work: loaded, listening and not shutting down. */
  readonly ready: () => boolean;
}

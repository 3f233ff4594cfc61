import type { Metric } from './metric.ts';
import { ProcessMetrics } from './process-metrics.ts';
import type { RequestMetrics } from './request-metrics.ts';
import { type ServiceState, stateMetrics } from './state-metrics.ts';

/** What {@link MetricSource} asks. */
export interface MetricSourceOptions {
  readonly requests: Pick<RequestMetrics, 'metrics'>;
  readonly state: ServiceState;
}

/** See {@link MetricSource.reader}. */
export interface MetricReading {
  /** When counting began, in milliseconds since the Unix epoch. */
  readonly startedAt: number;
  /** The metrics as they are at this moment; those that have no series yet are left out. */
  read(): Metric[];
}

/** All metrics, for whoever asks: Prometheus, or an exporter. Knows nothing of either. */
export class MetricSource {
  readonly #requests: Pick<RequestMetrics, 'metrics'>;
  readonly #state: ServiceState;
  readonly #startedAt: number = Date.now();

  constructor({ requests, state }: MetricSourceOptions) {
    this.#requests = requests;
    this.#state = state;
  }

  /** A view for one that asks again and again: what it sees of the event loop is what there was since it last asked. */
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

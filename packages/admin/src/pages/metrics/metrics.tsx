import { PageFrame } from '../../ui/page-frame.tsx';
import { CallGroups } from './call-groups.tsx';
import { FilterShares } from './filter-shares.tsx';
import { HostProcesses } from './host-processes.tsx';
import { PrometheusMetrics } from './prometheus-metrics.tsx';

/** `#/metrics`: calls of the last hour by group, filters, host processes, and what Prometheus reads. */
export default function Metrics() {
  return (
    <PageFrame
      title="Metrics"
      description="Calls of the last hour, the work of filters and actions, and all metrics for Prometheus and OpenTelemetry."
    >
      <CallGroups />
      <section aria-labelledby="filter-shares">
        <h2 id="filter-shares" className="section-title">
          Filters
        </h2>
        <FilterShares />
      </section>
      <section aria-labelledby="host-processes">
        <h2 id="host-processes" className="section-title">
          Host processes of actions
        </h2>
        <HostProcesses />
      </section>
      <section aria-labelledby="prometheus">
        <h2 id="prometheus" className="section-title">
          Metrics for Prometheus
        </h2>
        <PrometheusMetrics />
      </section>
    </PageFrame>
  );
}

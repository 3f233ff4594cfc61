import { pathOf } from '../http/public-url.ts';
import { LegacyBackendProxy } from '../management/legacy-backend.ts';
import { Plugins } from '../management/plugins.ts';
import { Management, managementMcpNamespace, managementTelemetry } from '../management/server.ts';
import { MetricSource } from '../telemetry/metrics/metric-source.ts';
import { provisioner } from '../upstreams/grpc/provisioning.ts';
import type { Parts } from './inference.ts';
import type { Listeners } from './listeners.ts';
import { stateMetrics } from './metrics.ts';
import { managementMcpHandler } from './pipeline.ts';
import { checkFiles } from './preflight.ts';

/** State of the process that the management API reports. */
export interface ProcessState {
  /** `Date.now()` when the configuration was read. */
  readonly startedAt: number;
  /** False while the service is starting or shutting down. */
  ready: boolean;
  /** Bound addresses of all listeners by name. */
  addresses: Readonly<Record<string, string>>;
}

/** Creates the management API, and the export of all metrics. */
export async function openManagement(parts: Parts, { chains, listening }: Listeners, state: ProcessState) {
  const { config, logger, requests, replica, shared, sharing, identity, egress, closing, open, lastExportMs } = parts;
  const { classicUrl, pluginsPath, bootstrap, consoleUrl, proxies, bridgeGrpc: settings } = config;
  const metricSource = new MetricSource(() => [...requests.metrics.metrics(), ...stateMetrics(parts)]);
  const telemetry = managementTelemetry(requests);
  const log = logger.target('service::mgmt');
  const onFailure = ({ message }: Error) => log.warn(`legacy backend: ${message}`);
  const namespaceOf = (target: string) => managementMcpNamespace(pathOf(target, consoleUrl));
  const management = closing(
    new Management({
      ...parts,
      ...listening,
      log,
      legacyBackend: closing(
        new LegacyBackendProxy(classicUrl, { onFailure, egress, isSandboxed: () => identity.may !== undefined }),
      ),
      plugins: closing(await Plugins.open({ path: pluginsPath, targets: bootstrap.plugins, egress, log })),
      provisionTool: provisioner({ ...parts, settings }),
      metricSource,
      checkFiles: () => checkFiles(config, state.startedAt),
      addresses: () => state.addresses,
      ready: () => state.ready && !identity.isSuspended,
      hasDatabase: () => shared?.isConnected ?? true,
      peers: replica?.peers,
      replicas: async () => (replica && sharing ? await replica.list(sharing) : []),
      telemetry,
      identity: identity.forListener('management', namespaceOf),
      serviceKeys: () => identity.keys,
      get may() {
        return identity.may;
      },
      serveMcp: managementMcpHandler(chains, { ...listening, telemetry }, consoleUrl),
    }),
  );
  const { metrics } = config.openTelemetry;
  // OpenTelemetry's packages are loaded only for export.
  const metricExport =
    metrics &&
    (await (
      await import('../telemetry/metrics/otlp-export.ts')
    ).exportMetrics(metricSource, metrics, logger.target('service'), (url) => proxies.for(url)?.href()));
  open.defer(() => metricExport?.close(lastExportMs()));
  return management;
}

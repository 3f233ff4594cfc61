import { operations, type Readiness, type Statistics } from '@sluice/contract';
import { canOpenFiles, TOO_MANY_OPEN_FILES } from '../http/open-files.ts';
import type { Snapshot } from '../registry/snapshot.ts';
import type { PrometheusText } from '../telemetry/metrics/prometheus.ts';
import type { ManagementContext } from './context.ts';
import { dataResponse, errorResponse, streamResponse } from './responses.ts';
import type { Router } from './router.ts';

/**
 * `/healthz` and `/health`: liveness, also during shutdown; `/readyz`: readiness; `/api/v1/replicas` (docs/replicas.md);
 * `/api/v1/management/statistics`; `/api/v1/metrics`: counters since the start of the process.
 */
export function observabilityRoutes(router: Router, context: ManagementContext): void {
  const { ready, evaluators, hasDatabase, replicas, registry, metrics: counters } = context;
  const { health, healthAlias, readiness, statistics, metrics } = operations.observability;
  for (const operation of [health, healthAlias]) {
    router.add(operation, () => dataResponse('{"status":"ok"}'));
  }
  router.add(readiness, () =>
    ready()
      ? dataResponse(JSON.stringify(readinessOf(evaluators.current.skipped, hasDatabase())))
      : errorResponse('UNAVAILABLE', 'the service is starting or shutting down'),
  );
  router.add(operations.observability.replicas, async () => dataResponse(JSON.stringify(await replicas())));
  router.add(statistics, () => dataResponse(JSON.stringify(statisticsOf(registry.current))));
  router.add(metrics, () => dataResponse(JSON.stringify(counters.snapshot())));
}

/** A skipped evaluator does not make the service unready: it serves as specified, but does not run. */
function readinessOf(skipped: readonly string[], hasDatabase: boolean): Readiness {
  return {
    status: 'ready',
    ...(skipped.length > 0 && { skipped_evaluators: [...skipped] }),
    ...(!hasDatabase && { database: 'unreachable' }),
  };
}

/** Number of served entries in all namespaces, without shadowed ones. */
function statisticsOf(snapshot: Snapshot): Statistics {
  return {
    toolsCount: snapshot.servedCount('tool'),
    resourcesCount: snapshot.servedCount('resource'),
    promptsCount: snapshot.servedCount('prompt'),
    forwardsCount: snapshot.forwards.size,
    dataStoresCount: 0,
  };
}

/** Files that may be open at once while the modules are imported. */
const MODULE_FILES = 24;

/** Content type of the Prometheus text format. */
const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

/**
 * `/metrics`: all metrics in the Prometheus text format, without an envelope. The OpenAPI document, which describes JSON,
 * does not contain it.
 */
export function prometheusRoutes(router: Router, { metricSource }: ManagementContext): void {
  let prometheus: Promise<PrometheusText> | undefined;
  const load = async (): Promise<PrometheusText> => {
    const { PrometheusText } = await import('../telemetry/metrics/prometheus.ts');
    return new PrometheusText(metricSource);
  };
  router.addPath('/metrics', 'read', async () => {
    // A module whose import fails, for lack of open files, cannot be imported again.
    if (!prometheus && !canOpenFiles(MODULE_FILES)) return errorResponse('UNAVAILABLE', TOO_MANY_OPEN_FILES);
    prometheus ??= load();
    return streamResponse(await (await prometheus).text(), { 'content-type': CONTENT_TYPE });
  });
}

import { Access } from '../access/access.ts';
import { publishRegistryChanges } from '../management/registry-changes.ts';
import { ForwardHistory } from '../upstreams/forward-history.ts';
import { ForwardValidator } from '../upstreams/forward-validator.ts';
import { Forwards } from '../upstreams/forwards.ts';
import { grpcBridge } from '../upstreams/grpc/bridge.ts';
import { probeHealth, ServiceHealthMonitor } from '../upstreams/grpc/health.ts';
import { GrpcLibrary } from '../upstreams/grpc/library.ts';
import { ResourceLinkCache } from '../upstreams/mcp/relay/resource-link-cache.ts';
import { RunningOperations } from '../upstreams/operation.ts';
import { SERVER_INFO } from './core.ts';
import { bootstrap, openMarks } from './storage.ts';
import type { WithTelemetry } from './telemetry.ts';

/** The layer with the upstreams: see {@link addUpstreams}. */
export type WithUpstreams = Awaited<ReturnType<typeof addUpstreams>>;

/** Adds forwards, to which the bootstrap file is applied, and capability services. */
export async function addUpstreams(parts: WithTelemetry) {
  const { config, logger, registry, replica, sealer, calls, secrets, egress, stateEvents, closing } = parts;
  const { identity, blocks } = parts;
  const { healthCheckIntervalMs, catalogLimits, clientDiscoveryLimits, discoveryWaitMs, bridgeGrpc: settings } = config;
  const log = logger.target('service::bridge');
  const sharedSessions = await replica?.openUpstreamSessions(sealer);
  const sharing = closing(await replica?.openDiscovery(registry));
  const resourceLinks = new ResourceLinkCache((forward) => registry.current.forwards.has(forward));
  const access = new Access(registry, (namespace, uri) => resourceLinks.find(namespace, uri), blocks);
  const operations = new RunningOperations(calls, log);
  const forwardValidator = new ForwardValidator(config.kinds, secrets, identity);
  const forwards = closing(
    new Forwards({
      operations,
      kinds: config.kinds,
      validator: forwardValidator,
      registry,
      sharing,
      sharedSessions,
      secrets,
      log: logger.target('service::forward'),
      clientInfo: { ...SERVER_INFO },
      healthCheckIntervalMs,
      catalogLimits,
      discoveryMarks: await openMarks(parts),
      clientDiscoveryLimits,
      discoveryWaitMs,
      http: { egress, maxDecodedBytes: Math.max(config.pipeline.bodyLimits.response, catalogLimits.bytes) },
    }),
  );
  forwards.changed.subscribe(({ forward: name, change }) => stateEvents.publish('forwards', { name, change }));
  const forwardHistory = new ForwardHistory(registry, forwards);
  await bootstrap(parts, registry, forwardValidator);
  closing(publishRegistryChanges(registry, stateEvents));

  const { load: loadGrpc } = closing(new GrpcLibrary(registry));
  const bridge = grpcBridge({
    registry,
    loadGrpc,
    operations,
    settings,
    log,
    get droppedHeaders() {
      return identity.droppedHeaders;
    },
  });
  const serviceHealth = closing(
    new ServiceHealthMonitor({
      registry,
      probe: async (entry, signal) => probeHealth(await loadGrpc(), entry, signal, settings),
      intervalMs: healthCheckIntervalMs,
      log,
    }),
  );
  serviceHealth.changed.subscribe(({ entry, result }) => stateEvents.serviceChanged(entry, result));
  return {
    ...parts,
    sharedSessions,
    sharing,
    resourceLinks,
    access,
    operations,
    forwards,
    forwardHistory,
    forwardValidator,
    loadGrpc,
    bridge,
    serviceHealth,
  };
}

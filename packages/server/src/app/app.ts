import { randomBytes } from 'node:crypto';
import { serviceAddress } from '@sluice/contract';
import { labelledHeaders } from '../http/address.ts';
import { Clusters } from '../http/clusters.ts';
import { createHostOriginGuard } from '../http/host-origin-guard.ts';
import { InteractionStore } from '../inference/interaction-store.ts';
import { InteractionRecorder } from '../inference/recorder.ts';
import { CurrentInferenceSettings } from '../inference/settings.ts';
import { LegacyBackendProxy } from '../management/legacy-backend.ts';
import { plainError } from '../management/route.ts';
import { createManagement, observingManagement } from '../management/server.ts';
import { ClientProfiles, DeclaredParams } from '../mcp/client-profile.ts';
import { ListChangeNotifier } from '../mcp/list-changes.ts';
import { OpenStreams } from '../mcp/long-streams.ts';
import type { Implementation } from '../mcp/server-info.ts';
import { ActiveSessions } from '../mcp/sessions/live-sessions.ts';
import { EventStore } from '../mcp/sessions/resumable-streams.ts';
import { ClientSessions } from '../mcp/sessions/sessions.ts';
import { NamespaceBindings } from '../policy/bindings.ts';
import { EvaluatorEngine } from '../policy/engine.ts';
import { LlmClient } from '../policy/llm/client.ts';
import { ResultSchemas } from '../policy/llm/result-schema.ts';
import { ActionCompiler } from '../policy/sandbox/compiler.ts';
import { ActionHosts } from '../policy/sandbox/pool.ts';
import type { Logger } from '../telemetry/log.ts';
import { exportMetrics } from '../telemetry/metrics/otlp-export.ts';
import { RequestMetrics } from '../telemetry/metrics/request-metrics.ts';
import { MetricSource, ServiceMetrics } from '../telemetry/metrics/service-metrics.ts';
import { ToolCallEvents } from '../telemetry/tool-calls/events.ts';
import { openTracing } from '../telemetry/tracing/tracing.ts';
import { VERSION } from '../telemetry/version.ts';
import { Bridge } from '../upstreams/grpc/bridge.ts';
import { BridgedCalls } from '../upstreams/grpc/call.ts';
import { Channels, disableGrpcLogging, loadProtocols } from '../upstreams/grpc/channel.ts';
import { probeHealth, ServiceHealthMonitor } from '../upstreams/grpc/health.ts';
import { Provisioning } from '../upstreams/grpc/provisioning.ts';
import { ParkedCalls } from '../upstreams/mcp/era-translation/parked-calls.ts';
import { Forwards } from '../upstreams/mcp/forwards.ts';
import { type InFlightCall, InFlightCalls } from '../upstreams/mcp/relay/in-flight.ts';
import { ResourceLinkCache } from '../upstreams/mcp/relay/linked-resources.ts';
import { CallRouter } from '../upstreams/mcp/relay/relay.ts';
import { CallSessionPool } from '../upstreams/mcp/sessions/call-sessions.ts';
import { SessionBindings } from '../upstreams/mcp/sessions/session-bindings.ts';
import { SessionSubscriptions } from '../upstreams/mcp/streams/session-subscriptions.ts';
import type { Config } from './config/config.ts';
import { INFERENCE_CLUSTER } from './config/pipeline/pipeline.ts';
import { unjudgedListeners } from './config/pipeline/validate.ts';
import { serviceState } from './metric-sources.ts';
import { type ChainParts, makeChain, pipelineListener } from './pipeline.ts';
import { bind, bootstrap, openEvaluators, openKeptSessions, openRegistry, openSealer } from './storage.ts';

/** The service, running. */
export interface Service {
  /** Bound addresses, `host:port`: `management`, and the pipeline's listeners by name. */
  readonly addresses: Readonly<Record<string, string>>;
  /** True when nothing is registered yet but the namespace that always exists. */
  readonly empty: boolean;
  /** Drains for at most `graceMs` (30 s), flushes and ends (decisions 1.1). */
  stop(graceMs?: number): Promise<void>;
}

/** What management requests get to finish when the grace is used up. */
const MIN_DRAIN_MS = 1_000;

/** What a collector that does not answer gets at the end. */
const LAST_EXPORT_MS = 5_000;

/** Who we are, towards clients and upstreams. */
const SERVER_INFO: Implementation = { name: 'sluice', title: 'Sluice', version: VERSION };

/**
 * Puts the service together, part by part in the order in which they need each other, and starts it (decisions 1.1:
 * registry, bootstrap, listeners, ready, discovery). Throws what kept it from starting; nothing is left running then.
 * `droppedLines`: how many lines the log has lost.
 */
export async function startService(
  config: Config,
  logger: Logger,
  droppedLines: () => number = () => 0,
): Promise<Service> {
  const log = logger.target('service');
  const { pipeline } = config;
  // What is open ends in the reverse order, at a stop as when the start fails; one that cannot does not keep others open.
  await using open = new AsyncDisposableStack();
  let exportMs = 0;

  const registry = await openRegistry(config, logger);
  open.defer(() => registry.close());
  const limits = { silenceMs: config.upstreamIdleTimeoutMs, totalMs: config.upstreamMaxTimeoutMs };
  const calls = new InFlightCalls<InFlightCall>(limits);
  open.defer(() => calls.close());
  const forwards = new Forwards({
    registry,
    log: logger.target('service::forward'),
    clientInfo: { ...SERVER_INFO },
    healthCheckIntervalMs: config.healthCheckIntervalMs,
  });
  open.defer(() => forwards.close(0));
  await bootstrap(config, registry);

  const notices = new ListChangeNotifier(registry);
  open.defer(() => notices.close());

  const schemas = new ResultSchemas();
  open.defer(() => schemas.close());
  const compiling = new ActionCompiler();
  open.defer(() => compiling.close());
  const actions = new ActionHosts();
  open.defer(() => actions.close());
  const evaluators = await openEvaluators(config, logger, {
    compiling,
    schemas,
    hasNamespace: (name) => registry.current.namespace(name) !== undefined,
    onUse(set) {
      actions.keep(set.list.map(({ action }) => action));
      notices.judgedBy(set);
      if (set.list.length === 0) return;
      for (const line of unjudgedListeners(pipeline.listeners)) logger.target('service::evaluator').warn(line);
    },
  });
  open.defer(() => evaluators.close());
  const bindings = new NamespaceBindings(registry);
  open.defer(() => bindings.close());

  const profiles = new ClientProfiles(registry, SERVER_INFO);
  const sealer = await openSealer(config);
  const kept = await openKeptSessions(config, logger);
  open.defer(() => kept.close());
  const sessions = new ClientSessions(sealer, profiles, kept);
  const replica = randomBytes(6).toString('base64url');
  const events = new EventStore(sealer, replica);
  open.defer(() => events.close());
  const lives = new ActiveSessions(events, replica);
  const longStreams = new OpenStreams();
  const interactions = new InteractionStore(config.interactionCapacity);
  const toolCalls = new ToolCallEvents(logger, (id) => interactions.completion(id) !== undefined);

  const sessionWatches = new SessionSubscriptions({
    sessions,
    lives,
    log: logger.target('service::forward'),
    elsewhere: (session, headers) => sessionLinks.hold(session, headers, false),
  });
  const sessionLinks = new SessionBindings({
    upstreams: () => forwards.upstreams(),
    upstream: (forward) => forwards.upstream(forward),
    sessions,
    lives,
    calls,
    watches: sessionWatches,
    log: logger.target('service::forward'),
  });
  const parked = new ParkedCalls({
    sealer,
    replica,
    limit: config.parkedCallsLimit,
    timeoutMs: config.parkedCallTimeoutMs,
  });
  const declaredParams = new DeclaredParams(profiles);
  const relay = new CallRouter({
    forwards,
    parked,
    callSessions: new CallSessionPool(calls),
    declaredParams,
    linkedResources: new ResourceLinkCache((forward) => registry.current.forwards.has(forward)),
    calls,
    lives,
    sessions,
    sessionLinks,
    serverInfo: SERVER_INFO,
    toolCalls,
    forwardHeaders: config.forwardHeaders,
    parseHeaderNames: labelledHeaders,
    maxResponseBytes: pipeline.bodyLimits.response,
    log: logger.target('service::forward'),
  });

  disableGrpcLogging();
  const protocols = loadProtocols();
  const channels = new Channels(registry);
  open.defer(() => channels.close());
  const settings = config.bridgeGrpc;
  const bridgeLog = logger.target('service::bridge');
  const bridgedCalls = new BridgedCalls(calls, bridgeLog);
  const bridge = new Bridge({
    registry,
    protocols,
    channels,
    calls: bridgedCalls,
    settings,
    toolCalls,
    log: bridgeLog,
  });
  const serviceHealth = new ServiceHealthMonitor({
    registry,
    probe: (entry, signal) => probeHealth(channels.to(serviceAddress(entry)), protocols, entry, signal, settings),
    intervalMs: config.healthCheckIntervalMs,
    log: bridgeLog,
  });
  open.defer(() => serviceHealth.close());

  const guard = createHostOriginGuard(config);
  const metrics = new ServiceMetrics();
  metrics.loaded = () => ({
    evaluators_loaded: evaluators.current.list.length,
    wasm_compiled: evaluators.current.actionCount,
    namespace_bindings: bindings.size,
  });
  const secure = new Set(pipeline.listeners.filter(({ tls }) => tls !== undefined).map(({ name }) => name));
  const requestMetrics = new RequestMetrics(secure);
  const llm = new LlmClient();
  open.defer(() => llm.close());
  const engine = new EvaluatorEngine({
    evaluators,
    bindings,
    llm,
    actions,
    registry,
    interactions,
    calls,
    metrics,
    log: logger.target('service::evaluator'),
  });
  const { traces, metrics: exportedMetrics } = config.openTelemetry;
  const tracing = traces && (await openTracing(traces, log));
  open.defer(() => tracing?.close(exportMs));
  const requests = { metrics: requestMetrics, logger, tracing };
  const clusters = new Clusters(pipeline);
  open.defer(() => clusters.close());
  const inference = new CurrentInferenceSettings(pipeline.inferenceUpstream, interactions);
  inference.onUpstream((upstream) => clusters.replace(INFERENCE_CLUSTER, upstream));
  const recorder = new InteractionRecorder({ store: interactions, log: logger.target('service::inference') });
  const parts: ChainParts = {
    registry,
    engine,
    bridge,
    toolCalls,
    forwards,
    relay,
    sessions,
    sessionLinks,
    sessionWatches,
    lives,
    events,
    calls,
    notices,
    longStreams,
    profiles,
    declaredParams,
    metrics,
    clusters,
    proxyLog: logger.target('service::inference'),
    recorder,
    auth: config.auth,
    serverInfo: SERVER_INFO,
    log: logger.target('service::forward'),
  };
  const servers = pipeline.listeners.map((listener) => ({
    listener,
    server: pipelineListener(listener, {
      chain: makeChain(listener.filters, parts),
      guard,
      events,
      logger,
      requests,
    }),
  }));

  const metricSource = new MetricSource({
    requests: requestMetrics,
    state: serviceState({
      registry,
      forwards,
      serviceHealth,
      evaluators,
      metrics,
      interactions,
      toolCalls,
      calls,
      longStreams,
      droppedLines,
    }),
  });

  const managementLog = logger.target('service::mgmt');
  const classic = new LegacyBackendProxy(config.classicUrl, plainError, {
    onFailure: ({ message }) => managementLog.warn(`legacy backend: ${message}`),
  });
  open.defer(() => classic.close());
  let ready = false;
  const management = createManagement({
    registry,
    forwards,
    serviceHealth,
    evaluators,
    bindings,
    provisioning: new Provisioning({ channels, protocols, settings }),
    interactions,
    inference,
    classic,
    metrics,
    metricSource,
    toolCalls,
    longStreams,
    log: managementLog,
    ready: () => ready,
    corsOrigin: config.corsOrigin,
    guard,
    observe: observingManagement(requests),
  });

  open.defer(() => management.close());
  const metricExport = exportedMetrics && (await exportMetrics(metricSource, exportedMetrics, log));
  open.defer(() => metricExport?.close(exportMs));
  const bound = await bind(config.mgmtListen, management, servers);
  const addresses = Object.fromEntries(bound.map(({ name, listener }) => [name, listener.address]));
  log.info('listening', addresses);
  ready = true;
  forwards.start();
  serviceHealth.start();
  const ends = open.move();

  return {
    addresses,
    empty: registry.current.forwards.size === 0,
    async stop(graceMs = pipeline.shutdownTimeoutMs) {
      ready = false;
      log.info('stopping', { grace_seconds: graceMs / 1000 });
      const over = performance.now() + graceMs;
      const left = () => Math.max(over - performance.now(), MIN_DRAIN_MS);
      // They would never end by themselves.
      longStreams.endAll();
      parked.close();
      const [ofManagement, ...others] = bound;
      await Promise.all(others.map(({ listener }) => listener.drain(graceMs)));
      // Calls whose client has left are still judged or under way; of the grace, they get what is left.
      await engine.close(over - performance.now());
      await Promise.all([forwards.close(over - performance.now()), bridgedCalls.close(over - performance.now())]);
      // Open through all of this, so that readiness could be asked for; nobody keeps the service up by being slow.
      await ofManagement?.listener.drain(left());
      exportMs = Math.min(left(), LAST_EXPORT_MS);
      await ends.disposeAsync();
      log.info('stopped');
    },
  };
}

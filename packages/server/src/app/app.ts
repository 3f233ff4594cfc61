import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { serviceAddress } from '@sluice/contract';
import type { Implementation } from '@sluice/protocol/mcp/message';
import { Access } from '../access/access.ts';
import { REPLICA_LISTENER } from '../exchange/head.ts';
import { BodyBudget } from '../http/body-budget.ts';
import { Egress } from '../http/client/egress.ts';
import { UpstreamSockets } from '../http/client/upstream-sockets.ts';
import { Clusters } from '../http/clusters.ts';
import { createHostRule } from '../http/host-rule.ts';
import { ListenerConnections } from '../http/listener-connections.ts';
import { openFilesLimit, socketLimits } from '../http/open-files.ts';
import { createHostOriginGuard } from '../http/request-validation.ts';
import { Secrets } from '../http/secrets/secrets.ts';
import { proxyHeaders } from '../identity/proxy-headers.ts';
import { InteractionStore } from '../inference/interaction-store.ts';
import { InteractionRecorder } from '../inference/recorder.ts';
import { InferenceSettings, parseInferenceChange } from '../inference/settings.ts';
import { interactionView } from '../management/interactions.ts';
import { LegacyBackendProxy } from '../management/legacy-backend.ts';
import { Plugins } from '../management/plugins.ts';
import { publishRegistryChanges } from '../management/registry-changes.ts';
import { Management, managementTelemetry } from '../management/server.ts';
import { toolCallView } from '../management/tool-calls.ts';
import { ClientProfiles } from '../mcp/client-profile.ts';
import { DeclaredParams } from '../mcp/declared-params.ts';
import { DiscoveryWaits } from '../mcp/discovery-waits.ts';
import { onSubscriptionEvicted } from '../mcp/evicted-subscriptions.ts';
import { ListChangeNotifier } from '../mcp/list-changes.ts';
import { OpenResponses, type OpenResponseTimes } from '../mcp/open-responses.ts';
import { OpenStreams } from '../mcp/open-streams.ts';
import { ActiveSessions } from '../mcp/sessions/active-sessions.ts';
import { EventStore } from '../mcp/sessions/event-store.ts';
import { ClientSessions } from '../mcp/sessions/sessions.ts';
import { SubscriptionShares } from '../mcp/sessions/subscription-shares.ts';
import { NamespaceBindings, parseConversationId } from '../policy/bindings.ts';
import { DryRuns } from '../policy/dry-run.ts';
import { EvaluatorEngine } from '../policy/engine.ts';
import { LlmClient } from '../policy/llm/client.ts';
import { ResultSchemas } from '../policy/llm/result-schema.ts';
import type { ComponentCompiler } from '../policy/sandbox/action.ts';
import { ActionCompiler } from '../policy/sandbox/compiler.ts';
import { HostPool } from '../policy/sandbox/pool.ts';
import type { Snapshot } from '../registry/snapshot.ts';
import { diskFiles, type Files } from '../registry/store/files.ts';
import { announceAddress } from '../registry/store/lock.ts';
import { UnavailableStoreError } from '../registry/store/store.ts';
import type { Logger, TargetLogger } from '../telemetry/log.ts';
import { MetricSource } from '../telemetry/metrics/metric-source.ts';
import { RequestMetrics } from '../telemetry/metrics/request-metrics.ts';
import { ServiceMetrics } from '../telemetry/metrics/service-metrics.ts';
import { StateEvents } from '../telemetry/state-events.ts';
import { TimeSeries } from '../telemetry/time-series.ts';
import { ToolCallEvents } from '../telemetry/tool-calls/events.ts';
import { VERSION } from '../telemetry/version.ts';
import { Forwards } from '../upstreams/forwards.ts';
import { GrpcBridge } from '../upstreams/grpc/bridge.ts';
import { disableGrpcLogging, GrpcChannels, loadProtocols } from '../upstreams/grpc/channels.ts';
import { probeHealth, ServiceHealthMonitor } from '../upstreams/grpc/health.ts';
import { Provisioner } from '../upstreams/grpc/provisioning.ts';
import { InFlightCalls } from '../upstreams/in-flight-calls.ts';
import { ForwardKinds } from '../upstreams/kinds.ts';
import { SuspendedCalls } from '../upstreams/mcp/era-translation/suspended-calls.ts';
import { ResourceLinkCache } from '../upstreams/mcp/relay/resource-link-cache.ts';
import { SessionBindings } from '../upstreams/mcp/sessions/session-bindings.ts';
import { SessionSubscriptions } from '../upstreams/mcp/streams/session-subscriptions.ts';
import type { TaskRecord } from '../upstreams/mcp/tasks/task-record.ts';
import { taskMessages } from '../upstreams/mcp/tasks/translation.ts';
import { RunningOperations } from '../upstreams/operation.ts';
import type { UpstreamKind } from '../upstreams/upstream-kind.ts';
import { createCallParts } from './call-parts.ts';
import type { Config } from './config/config.ts';
import { INFERENCE_CLUSTER, INFERENCE_LISTENER } from './config/pipeline/pipeline.ts';
import { listenersWithoutEvaluators } from './config/pipeline/validate.ts';
import { serviceState } from './metric-sources.ts';
import { type ChainParts, makeChain, managementMcpHandler, pipelineListener } from './pipeline.ts';
import { checkFiles } from './preflight.ts';
import { logProxies, startFields, warnReachable, warnUnboundSecrets } from './start-log.ts';
import {
  announce,
  bind,
  bindAs,
  bootstrap,
  createEvaluators,
  listReplicas,
  openMarks,
  openRegistry,
  openSealer,
  openSessionStore,
  openSharedDiscovery,
  openSharedLog,
  openSharedRecords,
  openSharedSessions,
  openTasks,
} from './storage.ts';
import { reachableUrl } from './welcome.ts';

/** Running service. */
export interface Service {
  /** Bound addresses, `host:port`: `management`, and the pipeline's listeners by name. */
  readonly addresses: Readonly<Record<string, string>>;
  /** Drains for at most `graceMs` (30 s), flushes and stops. */
  stop(graceMs?: number): Promise<void>;
}

/** Optional parts of the service. */
interface ServiceParts {
  readonly droppedLines?: () => number;
  readonly compiler?: ComponentCompiler;
  readonly files?: Files;
  readonly openResponseTimes?: OpenResponseTimes;
  readonly kinds?: readonly UpstreamKind[];
}

/** Grace period of management requests after the shutdown grace is used up. */
const MIN_DRAIN_MS = 1_000;

/** Final timeout of a telemetry collector that does not respond. */
const LAST_EXPORT_MS = 5_000;

/** Identity of the service, sent to clients and upstreams. */
const SERVER_INFO: Implementation = { name: 'sluice', title: 'Sluice', version: VERSION };

/** Interval of the warnings that too many connections are open. */
const FULL_WARNING_MS = 60_000;

/** Time before the service is started again after its database failed. */
const RESTART_MS = 250;

/**
 * Starts the service, and again if its database fails meanwhile. Throws the error that prevented the start; nothing is left
 * running then. `droppedLines` returns the number of lost log lines; `compiler` compiles actions, and tests share one between
 * services; `files` is the file system of the registry folder; `openResponseTimes` are shorter times for tests; `kinds` are the kinds of
 * upstreams, by default all that there are.
 */
export async function startService(config: Config, logger: Logger, parts: ServiceParts = {}): Promise<Service> {
  for (;;) {
    try {
      return await start(config, logger, parts);
    } catch (error) {
      if (!(error instanceof UnavailableStoreError)) throw error;
      logger.target('service').error('database failed during startup; retrying', { error });
    }
    await delay(RESTART_MS);
  }
}

/** Creates the parts of the service in dependency order. */
async function start(
  config: Config,
  logger: Logger,
  {
    droppedLines = () => 0,
    compiler = new ActionCompiler(),
    files = diskFiles(),
    openResponseTimes,
    kinds,
  }: ServiceParts,
): Promise<Service> {
  const startedAt = Date.now();
  const log = logger.target('service');
  const { pipeline } = config;
  // Open resources are closed in reverse order, on shutdown and on a failed start; a failing one does not prevent
  // the others.
  await using open = new AsyncDisposableStack();
  const closing = <Part extends { close(): unknown } | undefined>(part: Part): Part => {
    open.defer(async () => void (await part?.close()));
    return part;
  };
  let exportMs = 0;

  const shared = closing(await openSharedLog(config, logger));
  const storage = { config, logger, files, shared };
  const forwardKinds = new ForwardKinds(kinds);
  const registry = closing(await openRegistry(storage, forwardKinds));
  const limits = { idleMs: config.upstreamIdleTimeoutMs, totalMs: config.upstreamMaxTimeoutMs };
  const calls = closing(new InFlightCalls(limits));
  const socketCounts = socketLimits(openFilesLimit());
  const secrets = new Secrets(config.secrets);
  const { proxies } = config;
  const egress = new Egress(proxies, new UpstreamSockets(socketCounts.upstreams));
  const stateEvents = new StateEvents();
  const sealer = await openSealer(storage);
  const sharedSessions = shared && (await openSharedSessions(shared, sealer));
  const sharing = closing(shared && (await openSharedDiscovery(shared, registry, logger)));
  const resourceLinks = new ResourceLinkCache((forward) => registry.current.forwards.has(forward));
  const access = new Access(registry, (namespace, uri) => resourceLinks.find(namespace, uri));
  const bridgeLog = logger.target('service::bridge');
  const operations = new RunningOperations(calls, bridgeLog);
  const forwards = new Forwards({
    operations,
    kinds: forwardKinds,
    registry,
    access,
    sharing,
    sharedSessions,
    secrets,
    log: logger.target('service::forward'),
    clientInfo: { ...SERVER_INFO },
    healthCheckIntervalMs: config.healthCheckIntervalMs,
    catalogLimits: config.catalogLimits,
    discoveryMarks: await openMarks(storage),
    clientDiscoveryLimits: config.clientDiscoveryLimits,
    discoveryWaitMs: config.discoveryWaitMs,
    http: { egress, maxDecodedBytes: Math.max(pipeline.bodyLimits.response, config.catalogLimits.bytes) },
  });
  closing(forwards);
  forwards.changed.subscribe(({ forward: name, change }) => stateEvents.publish('forwards', { name, change }));
  await bootstrap(config, registry, forwards, logger);
  closing(publishRegistryChanges(registry, stateEvents));
  const listChanges = closing(new ListChangeNotifier(registry));

  const schemas = closing(new ResultSchemas());
  closing(compiler);
  const actions = closing(new HostPool());
  const evaluators = await createEvaluators(storage, {
    compiler,
    schemas,
    namespaceExists: (name) => registry.current.namespace(name) !== undefined,
  });
  closing(evaluators);
  evaluators.activated.subscribe((set) => {
    actions.setActions(set.list.map(({ action }) => action));
    listChanges.setEvaluators(set);
    stateEvents.evaluatorsActivated(set);
    if (set.list.length === 0) return;
    for (const line of listenersWithoutEvaluators(pipeline.listeners)) logger.target('service::evaluator').warn(line);
  });
  await evaluators.start(config.bootstrap.evaluators, config.bootstrap.invalidEvaluators);
  const bindings = new NamespaceBindings(
    registry,
    await openSharedRecords(shared, 'namespace_bindings', parseConversationId),
  );
  closing(bindings);

  const profiles = new ClientProfiles(registry, SERVER_INFO);
  const declaredParams = new DeclaredParams(profiles);
  const subscriptions = new SubscriptionShares(config.subscriptionLimits);
  const sessionLimits = { subscriptions, maxEnded: config.maxEndedSessions };
  const sessionStore = closing(await openSessionStore(storage, sessionLimits));
  const replicaId = shared?.members.id ?? randomBytes(6).toString('base64url');
  const events = closing(new EventStore(sealer, replicaId, config.maxResumableBytes));
  const openResponses = new OpenResponses(openResponseTimes);
  const activeSessions = new ActiveSessions(events, replicaId);
  const sessions = new ClientSessions(sealer, profiles, sessionStore, activeSessions);
  const openStreams = new OpenStreams();
  const interactions = new InteractionStore(config.interactionCapacity);

  const secure = new Set(pipeline.listeners.filter(({ tls }) => tls !== undefined).map(({ name }) => name));
  const requestMetrics = new RequestMetrics(secure);
  const toolCalls = new ToolCallEvents(logger, {
    isCompletion: (id) => interactions.completion(id) !== undefined,
    metrics: requestMetrics,
  });
  const timeSeries = new TimeSeries({
    toolCalls,
    requests: requestMetrics,
    completions: () => interactions.recorded,
  });
  timeSeries.start();
  closing(timeSeries);

  const { traces, metrics: exportedMetrics } = config.openTelemetry;
  const proxyFor = (url: URL) => proxies.hrefFor(url);
  // OpenTelemetry's packages are loaded only for export.
  const tracing =
    traces && (await (await import('../telemetry/tracing/tracing.ts')).openTracing(traces, log, proxyFor));
  open.defer(() => tracing?.close(exportMs));

  const sessionSubscriptions = new SessionSubscriptions({
    log: logger.target('service::forward'),
    onLegacyAvailable: (session, headers) => sessionBindings.onListening(session, headers, false),
  });
  sessionStore.ended?.subscribe((id) => {
    activeSessions.find(id)?.end();
    events.dropSession(id);
    forwards.upstreams.closeSession(id);
  });
  const evictionParts = { registry, store: sessionStore, active: activeSessions, forwards, sessionSubscriptions };
  sessionStore.subscriptionEvicted.subscribe(onSubscriptionEvicted(evictionParts));
  const tasks = closing(await openTasks(storage));
  const sessionBindings = new SessionBindings({
    taskMessages: ({ transport: { address } }, { sessionId }, { id }) =>
      taskMessages(tasks, { address, session: sessionId }, ({ clientSession }) => clientSession === id),
    upstreams: () => forwards.upstreams,
    upstream: (forward) => forwards.upstreams.of(forward),
    calls,
    subscriptions: sessionSubscriptions,
    sharedSessions,
    log: logger.target('service::forward'),
  });
  const suspendedCalls = new SuspendedCalls({
    sealer,
    replica: replicaId,
    limit: config.parkedCallsLimit,
    timeoutMs: config.parkedCallTimeoutMs,
    isHidden: ({ entry, forward, uri }) => {
      if (forward !== undefined && uri !== undefined) return !access.rules.allowsUri(forward, uri);
      return entry !== undefined && access.rules.isHidden(entry);
    },
  });
  const stopFollowing = registry.committed.subscribe(({ lists }) => {
    suspendedCalls.expireHidden();
    // A task ends with its forward, and with the address that it was created at.
    tasks.discardWhere((task) => isDetached(task, registry.current));
    if (lists.some(({ kind }) => kind === 'resource')) sessionBindings.onResourcesChanged();
  });
  open.defer(stopFollowing);
  disableGrpcLogging();
  const protocols = loadProtocols();
  const channels = closing(new GrpcChannels(registry));
  const settings = config.bridgeGrpc;
  const bridge = new GrpcBridge({
    registry,
    protocols,
    channels,
    operations,
    settings,
    log: bridgeLog,
  });
  const { cancelTask, taskEvents, ...taskParts } = createCallParts({
    config,
    serverInfo: SERVER_INFO,
    calling: {
      calls,
      resourceLinks,
      maxResponseBytes: pipeline.bodyLimits.response,
      log: logger.target('service::forward'),
    },
    access,
    forwards,
    bridge,
    declaredParams,
    tasks,
    suspendedCalls,
    sessionBindings,
    toolCalls,
    stateEvents,
    tracing,
    replica: replicaId,
    shared,
  });

  const serviceHealth = new ServiceHealthMonitor({
    registry,
    probe: (entry, signal) => probeHealth(channels.get(serviceAddress(entry)), protocols, entry, signal, settings),
    intervalMs: config.healthCheckIntervalMs,
    log: bridgeLog,
  });
  closing(serviceHealth);
  serviceHealth.changed.subscribe(({ entry, result }) => stateEvents.serviceChanged(entry, result));

  const { allowedHosts, corsOrigin, publicUrl, consoleUrl } = config;
  const guard = createHostOriginGuard({ allowedHosts, corsOrigin, publicUrl });
  const hostRule = createHostRule({ allowedHosts, publicUrl });
  const bodies = new BodyBudget(config.maxBodiesBytes);
  const metrics = new ServiceMetrics({
    loaded: () => ({
      evaluators_loaded: evaluators.current.list.length,
      evaluators_skipped: evaluators.current.skipped.length,
      wasm_compiled: evaluators.current.actionCount,
      namespace_bindings: bindings.size,
    }),
    hosts: () => actions.counts,
  });
  const replica = closing(shared && new (await import('./replica.ts')).Replica({ shared, config, interactions, log }));
  const llm = closing(new LlmClient({ secrets, egress, log: logger.target('service::evaluator') }));
  const engine = new EvaluatorEngine({
    evaluators,
    bindings,
    llm,
    actions,
    registry,
    interactions,
    otherConversations: replica?.conversations,
    calls,
    maxMembers: config.messageLimits.members,
    toolCalls,
    metrics,
    log: logger.target('service::evaluator'),
  });
  const requests = { metrics: requestMetrics, logger, tracing };
  const clusters = closing(new Clusters(pipeline, egress));
  const inference = new InferenceSettings(
    pipeline.inferenceUpstream,
    interactions,
    (upstream) => clusters.replace(INFERENCE_CLUSTER, upstream),
    await openSharedRecords(shared, 'inference', parseInferenceChange),
  );
  const recorder = new InteractionRecorder({ store: interactions, log: logger.target('service::inference') });
  const parts: ChainParts = {
    messageLimits: config.messageLimits,
    registry,
    access,
    engine,
    declaredParams,
    forwards,
    discoveryWaits: new DiscoveryWaits({ forwards, registry, calls, waitMs: config.discoveryWaitMs }),
    tasks,
    ...taskParts,
    sessions,
    sessionBindings,
    sessionSubscriptions,
    subscriptions,
    events,
    calls,
    listChanges,
    openStreams,
    profiles,
    metrics,
    clusters,
    proxyLog: logger.target('service::inference'),
    recorder,
    completionMetrics: requestMetrics,
    auth: config.auth,
    proxies,
    hostRule,
    publicUrl,
    serverInfo: SERVER_INFO,
    log: logger.target('service::forward'),
  };
  const located = { events, suspendedCalls, tasks };
  const chains = pipeline.listeners.map((listener) => ({
    listener,
    chain: replica?.chain(listener, parts, located) ?? makeChain(listener.filters, parts),
  }));
  const connections = new ListenerConnections(socketCounts, warnFull(log));
  const listening = { guard, events, openResponses, logger, requests, registry, bodies, publicUrl, connections };
  const servers = chains.map(({ listener, chain }) => ({
    listener,
    server: pipelineListener(listener, {
      ...listening,
      chain,
      allow: listener.name === INFERENCE_LISTENER ? pipeline.inferenceAllow : undefined,
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
      tasks,
      taskEvents,
      openStreams,
      droppedLines,
      database: () =>
        shared && {
          ...shared.counts,
          isReachable: shared.isCurrent,
          staleSeconds: shared.members.staleMs / 1000,
          passedOn: replica?.passedOn ?? 0,
        },
    }),
  });

  const telemetry = managementTelemetry(requests);
  const managementLog = logger.target('service::mgmt');
  const legacyBackend = new LegacyBackendProxy(config.classicUrl, {
    onFailure: ({ message }) => managementLog.warn(`legacy backend: ${message}`),
    egress,
  });
  closing(legacyBackend);
  let ready = false;
  let addresses: Readonly<Record<string, string>> = {};
  const plugins = await Plugins.open({
    path: config.pluginsPath,
    targets: config.bootstrap.plugins,
    egress,
    log: managementLog,
  });
  closing(plugins);
  const management = new Management({
    plugins,
    registry,
    forwards,
    serviceHealth,
    evaluators,
    dryRuns: new DryRuns({
      evaluators,
      llm,
      registry,
      interactions,
      otherConversations: replica?.conversations,
      limits: config.messageLimits,
    }),
    bindings,
    provisioning: new Provisioner({ channels, protocols, settings }),
    sessions: sessionStore.sessions,
    diagnostics: {
      folder: config.persist.backend === 'file' ? config.persist.path : undefined,
      auth: config.auth,
      llmConnections: config.bootstrap.llmConnections,
      classicUrl: config.classicUrl,
      proxies,
      listeners: () => addresses,
      checkFiles: () => checkFiles(config, startedAt),
    },
    interactions,
    inference,
    legacyBackend,
    metrics,
    metricSource,
    toolCalls,
    stateEvents,
    recentLog: logger.recent,
    tasks,
    cancelTask,
    timeSeries,
    profiles,
    openStreams,
    log: managementLog,
    ready: () => ready,
    hasDatabase: () => shared?.isCurrent ?? true,
    otherReplicas: replica?.others,
    replicas: async () => (shared && sharing ? await listReplicas(shared, sharing) : []),
    uiPath: config.uiPath,
    publicUrl,
    consoleUrl,
    corsOrigin,
    guard: createHostOriginGuard({ allowedHosts, corsOrigin, publicUrl: consoleUrl }),
    connections,
    hostRule: createHostRule({ allowedHosts, publicUrl: consoleUrl }),
    bodies,
    telemetry,
    authenticate: proxyHeaders(),
    serveMcp: managementMcpHandler(chains, { ...listening, telemetry }, consoleUrl),
  });

  closing(management);
  const metricExport =
    exportedMetrics &&
    (await (
      await import('../telemetry/metrics/otlp-export.ts')
    ).exportMetrics(metricSource, exportedMetrics, log, proxyFor));
  open.defer(() => metricExport?.close(exportMs));
  forwards.open();
  const bound = await bind(config, management.server, servers);
  const peerServer = replica?.listener(
    chains,
    { ...toolCallView(toolCalls), ...interactionView(interactions) },
    listening,
  );
  if (peerServer && config.peerListen) {
    const peer = await bindAs('SERVICE_PEER_LISTEN', peerServer, config.peerListen);
    bound.push({ name: REPLICA_LISTENER, listener: peer });
  }
  addresses = Object.fromEntries(bound.map(({ name, listener }) => [name, listener.address]));
  if (shared) await announce(shared, config.peerAdvertise, addresses.peer, log);
  log.info('started', { ...startFields(config), ...(shared && { replica: replicaId }) });
  log.info('listening', addresses);
  if (config.persist.backend === 'file') {
    open.defer(await announceAddress(config.persist.path, files, reachableUrl(addresses.management)));
  }
  logProxies(log, proxies);
  warnReachable(log, addresses, pipeline);
  await warnUnboundSecrets(log, secrets);
  ready = true;
  shared?.start();
  await sharing?.start();
  forwards.start();
  serviceHealth.start();
  const resources = open.move();

  return {
    addresses,
    async stop(graceMs = pipeline.shutdownTimeoutMs) {
      ready = false;
      log.info('stopping', { grace_seconds: graceMs / 1000 });
      const deadline = performance.now() + graceMs;
      const remainingMs = () => Math.max(deadline - performance.now(), MIN_DRAIN_MS);
      // These streams would never end by themselves.
      openStreams.endAll();
      suspendedCalls.close();
      const [managementServer, ...others] = bound;
      let ended: number | undefined;
      const endCalls = (): boolean => {
        ended ??= calls.endAll();
        return ended > 0;
      };
      await Promise.all(others.map(({ listener }) => listener.drain(graceMs, endCalls)));
      // Calls whose client has disconnected may still be in evaluation or in flight; they get the rest of the grace
      // period.
      await engine.close(deadline - performance.now());
      await Promise.all([forwards.close(deadline - performance.now()), operations.close(deadline - performance.now())]);
      // Stays open until here so that readiness can be probed; slow clients do not delay the shutdown.
      await managementServer?.listener.drain(remainingMs(), endCalls);
      exportMs = Math.min(remainingMs(), LAST_EXPORT_MS);
      await resources.disposeAsync();
      log.info('stopped');
    },
  };
}

/** Returns a function that logs that all connections of the listeners are in use, once a minute. */
function warnFull(log: TargetLogger): (limit: number) => void {
  let nextAt = 0;
  return (limit) => {
    if (performance.now() < nextAt) return;
    nextAt = performance.now() + FULL_WARNING_MS;
    log.warn('too many connections: rejecting new ones; raise the limit of open files (ulimit -n)', { limit });
  };
}

/** True for a task whose forward is gone, or has another address than when it was created. */
function isDetached({ forward, address }: TaskRecord, { forwards }: Snapshot): boolean {
  return forward !== undefined && forwards.get(forward)?.address !== address;
}

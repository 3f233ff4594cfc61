import { randomBytes } from 'node:crypto';
import type { DryRunResult, Evaluator, IdentitySettings } from '@sluice/contract';
import { TokenSealer } from '@sluice/protocol/seal';
import { request } from 'undici';
import type { TestContext } from 'vitest';
import { StoredBlocks } from '../access/stored-blocks.ts';
import { DEFAULT_LOG_FILTER } from '../app/config/environment.ts';
import { stateMetrics } from '../app/metrics.ts';
import { BodyBudget } from '../http/body-budget.ts';
import { EgressProxies } from '../http/client/egress-proxies.ts';
import { Secrets } from '../http/secrets/secrets.ts';
import { listen } from '../http/server.ts';
import type { Authenticate } from '../identity/authenticator.ts';
import { Identity } from '../identity/identity.ts';
import { ANONYMOUS, toStored } from '../identity/principal.ts';
import { proxyHeaders } from '../identity/proxy-headers.ts';
import type { May } from '../identity/roles.ts';
import { InteractionStore } from '../inference/interaction-store.ts';
import { InferenceSettings } from '../inference/settings.ts';
import { ClientProfiles } from '../mcp/client-profile.ts';
import { OpenStreams } from '../mcp/open-streams.ts';
import { memorySessions } from '../mcp/sessions/fixtures/memory-sessions.ts';
import { ActionFiles } from '../policy/action-loader.ts';
import { NamespaceBindings } from '../policy/bindings.ts';
import type { DryRuns } from '../policy/dry-run.ts';
import { Evaluators } from '../policy/evaluators.ts';
import { PrefixCompiler } from '../policy/fixtures/prefix-compiler.ts';
import type { LlmConnection } from '../policy/llm/client.ts';
import { ResultSchemas } from '../policy/llm/result-schema.ts';
import type { ComponentCompiler } from '../policy/sandbox/action.ts';
import { Registry } from '../registry/registry.ts';
import { memoryRevisionStore } from '../registry/store/fixtures/memory-revision-store.ts';
import { memoryLog, type RecordLog } from '../registry/store/record-log.ts';
import type { RevisionStore } from '../registry/store/revision-store.ts';
import { createLogger, type Logger } from '../telemetry/log.ts';
import { MetricSource } from '../telemetry/metrics/metric-source.ts';
import { RequestMetrics } from '../telemetry/metrics/request-metrics.ts';
import { ServiceMetrics } from '../telemetry/metrics/service-metrics.ts';
import { StateEvents } from '../telemetry/state-events.ts';
import { TimeSeries } from '../telemetry/time-series.ts';
import { ToolCallEvents } from '../telemetry/tool-calls/events.ts';
import { unlimitedOperations } from '../upstreams/fixtures/operations.ts';
import { ForwardHistory } from '../upstreams/forward-history.ts';
import { ForwardValidator } from '../upstreams/forward-validator.ts';
import { Forwards } from '../upstreams/forwards.ts';
import { GrpcLibrary } from '../upstreams/grpc/library.ts';
import { provisioner } from '../upstreams/grpc/provisioning.ts';
import { ForwardKinds } from '../upstreams/kinds.ts';
import { TaskEvents } from '../upstreams/mcp/tasks/events.ts';
import type { Task } from '../upstreams/mcp/tasks/task.ts';
import type { TaskRecord } from '../upstreams/mcp/tasks/task-record.ts';
import { Tasks } from '../upstreams/mcp/tasks/tasks.ts';
import { IdentityRevisions } from './identity/identity-revisions.ts';
import { LegacyBackendProxy } from './legacy-backend.ts';
import { Plugins } from './plugins.ts';
import { Management, managementTelemetry } from './server.ts';
import { ConsoleSignIn } from './sign-in/sign-in.ts';

/** A response of the API as received by a client. */
export interface Answered {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  /** The header; empty when there is none. */
  readonly location: string;
  /** `data` of the envelope. */
  readonly data: unknown;
  /** `error` of the envelope. */
  readonly error: unknown;
}

/** A management API that listens on the loopback interface, with the components that it uses. */
export interface Api {
  readonly url: string;
  readonly port: number;
  readonly registry: Registry;
  readonly forwards: Forwards;
  readonly forwardHistory: ForwardHistory;
  readonly toolCalls: ToolCallEvents;
  readonly stateEvents: StateEvents;
  readonly logger: Logger;
  readonly openStreams: OpenStreams;
  readonly interactions: InteractionStore;
  readonly inference: InferenceSettings;
  readonly evaluators: Evaluators;
  readonly bindings: NamespaceBindings;
  /** All routes, as a tree: each path continues its parent. */
  readonly routes: string;
  /** Lines of the log so far. */
  readonly log: readonly string[];
  /** Sends a request; a `body` of text or bytes is sent unchanged, anything else as JSON. */
  call(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Answered>;
}

/** An API that the caller closes. */
export interface SharedApi extends Api {
  close(): Promise<void>;
}

/** Configuration of evaluators, all of it optional. */
export interface EvaluatorSettings {
  readonly connections?: readonly LlmConnection[];
  /** Base folder of relative paths of actions. */
  readonly baseFolder?: string;
  readonly actionsPath?: string;
  readonly compiling?: ComponentCompiler;
  readonly revisions?: RevisionStore;
  /** Evaluators in the configuration of the service. */
  readonly configured?: readonly Evaluator[];
}

/** Settings of {@link startApi}. */
export interface ApiSettings {
  readonly authenticate?: Authenticate;
  readonly may?: May;
  /** Decides who makes requests, in place of the two above. */
  readonly identity?: Identity;
  readonly identityStore?: RevisionStore;
  /** `identity` in the configuration of the service. */
  readonly configured?: IdentitySettings;
  readonly corsOrigin?: string;
  readonly allowedHosts?: readonly string[];
  readonly ready?: () => boolean;
  readonly store?: RecordLog;
  /** Folder of the web console; headless without it. */
  readonly uiPath?: string;
  /** Interval of keep-alive comments on open streams. */
  readonly keepAliveMs?: number;
  /** Timeout of a request body. */
  readonly bodyTimeoutMs?: number;
  /** Address of a legacy backend, and the timeout of its response head. */
  readonly classicUrl?: string;
  readonly firstByteTimeoutMs?: number;
  readonly evaluators?: EvaluatorSettings;
  /** No action can be run: the default returns {@link DRY_RUN}. */
  readonly dryRuns?: Pick<DryRuns, 'run'>;
  /** Without it, a task is canceled although it has no upstream. */
  readonly cancelTask?: (task: Task) => Promise<void>;
}

const DRY_RUN: DryRunResult = {
  verdict: 'pass',
  rejected: false,
  matches: true,
  ignored_responses: 0,
  prompt: '',
  log: [],
  copies: [],
};

/** A task that is known from the start, whose id is the name of the other entries. Another one, `ended`, has ended. */
const TASK: TaskRecord = {
  id: 'x',
  namespace: 'default',
  principal: toStored(ANONYMOUS),
  holder: { namespace: 'default', name: '' },
  address: 'http://127.0.0.1:9/mcp',
  upstreamId: 'hidden',
  kind: 'extension',
  clientEra: 'modern',
  isError: false,
  inputRequests: [],
  states: [],
  tool: { key: 'x' },
  status: 'working',
  createdAt: '2026-01-01T00:00:00Z',
  lastUpdatedAt: '2026-01-01T00:00:00Z',
  ttlMs: 86_400_000,
  created: Date.UTC(2026, 0),
  expires: Date.UTC(2100, 0),
};

/** Starts the API for one test and stops it after that. */
export async function startApi(context: Pick<TestContext, 'onTestFinished'>, settings: ApiSettings = {}): Promise<Api> {
  const api = await startSharedApi(settings);
  context.onTestFinished(() => api.close());
  return api;
}

/** Starts the API for tests that share it, since they do not change it. The caller closes it. */
export async function startSharedApi(settings: ApiSettings = {}): Promise<SharedApi> {
  const { corsOrigin, allowedHosts, ready = () => true, store = memoryLog() } = settings;
  const lines: string[] = [];
  const logger = createLogger(DEFAULT_LOG_FILTER, (line) => lines.push(line));
  const registry = new Registry(store);
  await registry.load();
  const [kinds, secrets] = [new ForwardKinds(), new Secrets()];
  const forwardValidator = new ForwardValidator(kinds, secrets, {
    get droppedHeaders() {
      return identity.droppedHeaders;
    },
  });
  const forwards = new Forwards({
    operations: unlimitedOperations(),
    secrets,
    kinds,
    validator: forwardValidator,
    registry,
    log: logger.target('service::forward'),
    clientInfo: { name: 'test', version: '1' },
    healthCheckIntervalMs: 0,
  });
  const forwardHistory = new ForwardHistory(registry, forwards);
  forwards.open();
  const grpc = new GrpcLibrary(registry);
  const calling = { timeoutMs: 5_000, maxRetries: 0, retryDelayMs: 0 };
  const toolCalls = new ToolCallEvents(logger);
  const stateEvents = new StateEvents();
  const openStreams = new OpenStreams(settings.keepAliveMs);
  const log = logger.target('service::mgmt');
  const storedBlocks = new StoredBlocks({ registry, log, retainMs: 1_000 });
  await storedBlocks.open(memoryLog());
  const interactions = new InteractionStore(1_000);
  const inference = new InferenceSettings(
    { scheme: 'http', host: '127.0.0.1', port: 11_434, path: '' },
    interactions,
    () => undefined,
  );
  const { bodyTimeoutMs, classicUrl, firstByteTimeoutMs = 30_000 } = settings;
  const legacyBackend = new LegacyBackendProxy(classicUrl, { firstByteTimeoutMs });
  const { evaluators: evaluating = {} } = settings;
  const { connections = [], baseFolder = import.meta.dirname, actionsPath, configured } = evaluating;
  const schemas = new ResultSchemas();
  const evaluators = new Evaluators({
    connections,
    files: new ActionFiles({ baseFolder, actionsPath }),
    compiler: evaluating.compiling ?? new PrefixCompiler(),
    schemas,
    store: evaluating.revisions ?? memoryRevisionStore(),
    log: logger.target('service::evaluator'),
  });
  await evaluators.start(configured);
  const identity = settings.identity ?? new Identity(undefined);
  const signIn = new ConsoleSignIn({
    consoleUrl: undefined,
    sealer: new TokenSealer(randomBytes(32)),
    fetch: async () => Promise.reject(new Error('there is no issuer')),
    identity: () => identity,
    log,
  });
  await signIn.stored.open(memoryLog());
  await signIn.stored.add('corp', { claims: { sub: 'ann' }, refreshToken: undefined, expiresIn: undefined }, 3_600_000);
  const identityRevisions = new IdentityRevisions({
    identity,
    store: settings.identityStore ?? memoryRevisionStore(),
    conflicts: () => [],
    forwardConflicts: () => [],
    end: async () => undefined,
    log,
  });
  await identityRevisions.start(settings.configured);
  const bindings = new NamespaceBindings(registry);
  const metrics = new ServiceMetrics();
  // There are neither probes nor calls.
  const serviceHealth = { get: () => 'pending' as const };
  const calls = { size: 0 };
  const requestMetrics = new RequestMetrics();
  const tasks = new Tasks({
    log: memoryLog(
      [TASK, { ...TASK, id: 'ended', status: 'completed' }].map((task) => {
        return { section: 'tasks', id: task.id, json: JSON.stringify(task) };
      }),
    ),
  });
  await tasks.load();
  const measured = {
    registry,
    forwards,
    serviceHealth,
    evaluators,
    metrics,
    interactions,
    toolCalls,
    calls,
    tasks: { openCount: 0 },
    taskEvents: new TaskEvents({ tasks, toolCalls, stateEvents, tracing: undefined }),
    openStreams,
    droppedLines: () => 0,
    identity,
  };
  const metricSource = new MetricSource(() => [...requestMetrics.metrics(), ...stateMetrics(measured)]);
  const profiles = new ClientProfiles(registry, { name: 'test', title: 'Test', version: '1' });
  const timeSeries = new TimeSeries({ toolCalls, requests: requestMetrics, completions: () => interactions.recorded });
  const plugins = await Plugins.open({ path: undefined, targets: new Map(), log });
  const app = new Management({
    plugins,
    dryRuns: settings.dryRuns ?? { run: async () => DRY_RUN },
    timeSeries,
    profiles,
    registry,
    storedBlocks,
    forwards,
    forwardHistory,
    forwardValidator,
    serviceHealth,
    provisionTool: provisioner({ loadGrpc: grpc.load, settings: calling }),
    metrics,
    metricSource,
    toolCalls,
    stateEvents,
    logger,
    tasks,
    cancelTask: settings.cancelTask ?? ((task) => task.cancel()),
    openStreams,
    sessionStore: memorySessions(),
    config: {
      uiPath: settings.uiPath,
      allowedHosts,
      corsOrigin,
      classicUrl,
      kinds,
      proxies: new EgressProxies(),
      persist: { backend: 'none' },
      bootstrap: { llmConnections: connections },
    },
    addresses: () => ({}),
    checkFiles: async () => [],
    interactions,
    inference,
    evaluators,
    identityRevisions,
    serviceKeys: () => identity.keys,
    bindings,
    log,
    bodies: new BodyBudget(),
    telemetry: managementTelemetry({ metrics: requestMetrics, logger, tracing: undefined }),
    identity: settings.identity
      ? identity.forListener('management')
      : { authenticate: settings.authenticate ?? proxyHeaders() },
    get may() {
      return settings.identity ? identity.may : settings.may;
    },
    signIn,
    legacyBackend,
    ready,
    hasDatabase: () => true,
    replicas: async () => [],
    ...(bodyTimeoutMs !== undefined && { bodyTimeoutMs }),
  });
  const listener = await listen(app.server, { host: '127.0.0.1', port: 0 });
  const url = `http://${listener.address}`;
  return {
    url,
    port: Number(new URL(url).port),
    registry,
    forwards,
    forwardHistory,
    toolCalls,
    stateEvents,
    openStreams,
    interactions,
    inference,
    evaluators,
    bindings,
    routes: app.router.print(),
    log: lines,
    logger,
    async call(method, path, body, headers = {}) {
      const raw = body === undefined || typeof body === 'string' || Buffer.isBuffer(body);
      const answer = await request(url + path, {
        method,
        headers: { ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
        body: raw ? (body ?? null) : JSON.stringify(body),
        // Idle connections would delay the shutdown.
        reset: true,
      });
      const text = await answer.body.text();
      const parsed: unknown = text === '' ? {} : JSON.parse(text);
      const has = typeof parsed === 'object' && parsed !== null && 'data' in parsed && 'error' in parsed;
      const { data, error } = has ? parsed : { data: undefined, error: undefined };
      const location = typeof answer.headers.location === 'string' ? answer.headers.location : '';
      return { status: answer.statusCode, headers: answer.headers, location, text, data, error };
    },
    async close() {
      openStreams.endAll();
      await listener.drain(30_000);
      app.close();
      await legacyBackend.close();
      await forwards.close();
      grpc.close();
      bindings.close();
      await tasks.close();
      await evaluators.close();
      await identityRevisions.close();
      await schemas.close();
      await registry.close();
    },
  };
}

import type { Implementation } from '@sluice/protocol/mcp/message';
import type { Access } from '../access/access.ts';
import type { DeclaredParams } from '../mcp/declared-params.ts';
import { isToolHidden } from '../mcp/methods/tasks.ts';
import type { SharedLog } from '../registry/store/postgres/shared-log.ts';
import type { StateEvents } from '../telemetry/state-events.ts';
import type { ToolCallEvents } from '../telemetry/tool-calls/events.ts';
import type { Tracing } from '../telemetry/tracing/tracing.ts';
import { Calls } from '../upstreams/calls.ts';
import { type ConnectionSources, connectionOf } from '../upstreams/connections.ts';
import type { Forwards } from '../upstreams/forwards.ts';
import type { GrpcBridge } from '../upstreams/grpc/bridge.ts';
import type { SuspendedCalls } from '../upstreams/mcp/era-translation/suspended-calls.ts';
import { McpConnection, type McpParts } from '../upstreams/mcp/mcp-connection.ts';
import type { CallDeps } from '../upstreams/mcp/relay/call-spec.ts';
import { labelHeaders } from '../upstreams/mcp/relay/forwarded-headers.ts';
import { CallSessionPool } from '../upstreams/mcp/sessions/call-session-pool.ts';
import type { SessionBindings } from '../upstreams/mcp/sessions/session-bindings.ts';
import { TaskSupport } from '../upstreams/mcp/task-support.ts';
import { CreatedTasks } from '../upstreams/mcp/tasks/created-tasks.ts';
import { TaskEvents } from '../upstreams/mcp/tasks/events.ts';
import { PromotedCalls } from '../upstreams/mcp/tasks/promoted-call.ts';
import { TaskRequests } from '../upstreams/mcp/tasks/requests.ts';
import { type TaskDeps, upstreamOf } from '../upstreams/mcp/tasks/target.ts';
import type { TaskRecord } from '../upstreams/mcp/tasks/task-record.ts';
import type { Tasks } from '../upstreams/mcp/tasks/tasks.ts';
import { onTaskMessage } from '../upstreams/mcp/tasks/translation.ts';
import { SessionTasks, TaskPolls, type TaskWatcherOptions } from '../upstreams/mcp/tasks/watcher.ts';
import type { Upstream } from '../upstreams/mcp/upstream.ts';
import { UpstreamHeaders } from '../upstreams/upstream-headers.ts';
import type { Config } from './config/config.ts';

/** Dependencies of {@link createCallParts}. */
export interface CallPartsOptions {
  readonly config: Config;
  readonly serverInfo: Implementation;
  readonly calling: CallDeps;
  readonly access: Access;
  readonly forwards: Forwards;
  readonly bridge: GrpcBridge;
  readonly declaredParams: DeclaredParams;
  readonly tasks: Tasks;
  readonly suspendedCalls: SuspendedCalls;
  readonly sessionBindings: SessionBindings;
  readonly toolCalls: ToolCallEvents;
  readonly stateEvents: StateEvents;
  /** Undefined if no traces are exported. */
  readonly tracing: Tracing | undefined;
  /** Id of this process. */
  readonly replica: string;
  /** Undefined without other replicas. */
  readonly shared: SharedLog | undefined;
}

/** What sends calls, and the parts that execute requests about tasks, which upstreams create in place of results. */
export interface CallParts {
  readonly clientCalls: Calls;
  readonly upstreamHeaders: UpstreamHeaders;
  readonly createdTasks: CreatedTasks;
  readonly taskRequests: TaskRequests;
  readonly taskEvents: TaskEvents;
  readonly promotedCalls: PromotedCalls;
  readonly taskWatcherOptions: TaskWatcherOptions;
  readonly sessionTasks: SessionTasks;
  /** Cancels a task for an operator. */
  readonly cancelTask: (task: TaskRecord) => Promise<void>;
}

/** Creates the parts, which refer to each other. */
export function createCallParts(options: CallPartsOptions): CallParts {
  const {
    config,
    serverInfo,
    calling,
    access,
    forwards,
    tasks,
    suspendedCalls,
    sessionBindings,
    toolCalls,
    shared,
    bridge,
    declaredParams,
  } = options;
  const taskEvents = new TaskEvents(options);
  const taskDeps: TaskDeps = { ...calling, tasks, upstreams: forwards.upstreams, clientInfo: serverInfo };
  const createdTasks = new CreatedTasks({
    ...taskDeps,
    isEnabled: config.tasksForPlainClients,
    events: taskEvents,
    onCreated: (record, session, headers) => sessionTasks.onCreated(record, session, headers),
    suspendedCalls,
    suspendedMs: config.parkedCallTimeoutMs,
  });
  const sessions = {
    callSessionPool: new CallSessionPool(calling.calls, (...message) => onTaskMessage(tasks, ...message)),
    sessionBindings,
  };
  const mcp: McpParts = {
    ...calling,
    ...sessions,
    serverInfo,
    taskSupport: new TaskSupport(config.tasksForPlainClients),
    tasks: createdTasks,
    mirroredParams: (tool, capabilities) => declaredParams.expectedByUpstream(tool, capabilities),
    ensureEraKnown: (address) => forwards.upstreams.ensureEraKnown(address),
  };
  const connections = new WeakMap<Upstream, McpConnection>();
  const connectionTo = (upstream: Upstream) =>
    connections.getOrInsertComputed(upstream, () => new McpConnection(upstream, mcp));
  const sources: ConnectionSources = {
    forward(name) {
      const upstream = forwards.upstreams.of(name);
      return upstream ? connectionTo(upstream) : forwards.connection(name);
    },
    entry: (entry) => bridge.forEntry(entry),
    server: (address) => connectionTo(forwards.upstreams.at(address)),
  };
  const promotedCalls = new PromotedCalls({
    tasks,
    replica: options.replica,
    isAlive: shared && ((id) => isAlive(shared, id)),
    afterMs: config.taskAutoAfterMs,
    maxCallMs: config.upstreamMaxTimeoutMs,
    maxBytes: config.maxTaskResultBytes,
    log: calling.log,
  });
  const upstreamHeaders = new UpstreamHeaders(config.forwardHeaders, labelHeaders);
  const clientCalls = new Calls(upstreamHeaders, {
    access,
    connectionOf: (target) => connectionOf(target, sources),
    calls: calling.calls,
    suspendedCalls,
    promotedCalls,
    toolCalls,
    log: calling.log,
    check: ({ via, mcpHeaders, ...client }, target) =>
      via === undefined ? declaredParams.check({ ...client, headers: mcpHeaders }, target) : undefined,
  });
  const taskRequests = new TaskRequests({
    ...taskDeps,
    toolCalls,
    clientOf: (...request) => clientCalls.clientOf(...request),
    sessions,
  });
  const taskWatcherOptions: TaskWatcherOptions = {
    tasks,
    upstreamOf: (record) => upstreamOf(taskDeps, record),
    polls: new TaskPolls(tasks, (record, headers) => taskRequests.read(record, headers)),
    isHidden: (record) => isToolHidden(record, access.rules),
  };
  const sessionTasks = new SessionTasks(taskWatcherOptions, serverInfo);
  const cancelTask = (task: TaskRecord) => taskRequests.cancel(task);
  return {
    clientCalls,
    upstreamHeaders,
    createdTasks,
    taskRequests,
    taskEvents,
    promotedCalls,
    taskWatcherOptions,
    sessionTasks,
    cancelTask,
  };
}

/** Whether another replica may be alive: unknown while the database cannot be reached. */
async function isAlive({ members }: SharedLog, id: string): Promise<boolean> {
  const replicas = await members.list().catch(() => undefined);
  return replicas?.some((replica) => replica.id === id && replica.isLive) ?? true;
}

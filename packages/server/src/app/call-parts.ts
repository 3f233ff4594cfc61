import type { Identity } from '../identity/identity.ts';
import type { Snapshot } from '../registry/snapshot.ts';
import { runSteps } from '../registry/steps.ts';
import type { ReplicatedLog } from '../registry/store/postgres/replicated-log.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import { Calls } from '../upstreams/call-stages.ts';
import { type ConnectionSources, connectionOf } from '../upstreams/connections.ts';
import { SuspendedCalls } from '../upstreams/mcp/era-translation/suspended-calls.ts';
import { McpConnection, type McpParts } from '../upstreams/mcp/mcp-connection.ts';
import type { CallDeps } from '../upstreams/mcp/relay/call-spec.ts';
import { labelHeadersWithout } from '../upstreams/mcp/relay/forwarded-headers.ts';
import { CallSessionPool } from '../upstreams/mcp/sessions/call-session-pool.ts';
import { TaskSupport } from '../upstreams/mcp/task-support.ts';
import { CreatedTasks } from '../upstreams/mcp/tasks/created-tasks.ts';
import { TaskEvents } from '../upstreams/mcp/tasks/events.ts';
import { PromotedCalls } from '../upstreams/mcp/tasks/promoted-call.ts';
import { TaskRequests } from '../upstreams/mcp/tasks/requests.ts';
import { storedTarget, type TaskDeps } from '../upstreams/mcp/tasks/target.ts';
import type { Task } from '../upstreams/mcp/tasks/task.ts';
import type { TaskRecord } from '../upstreams/mcp/tasks/task-record.ts';
import { onTaskMessage } from '../upstreams/mcp/tasks/translation.ts';
import { SessionTasks, TaskPolls, type TaskWatcherOptions } from '../upstreams/mcp/tasks/watcher.ts';
import type { Upstream } from '../upstreams/mcp/upstream.ts';
import { RunningOperations } from '../upstreams/operation.ts';
import { upstreamHeaders as createUpstreamHeaders } from '../upstreams/upstream-headers.ts';
import { SERVER_INFO } from './core.ts';
import type { WithPolicy } from './policy.ts';

/** The layer that executes calls: see {@link addCalls}. */
export type WithCalls = ReturnType<typeof addCalls>;

/** Adds what sends calls, and the parts that execute requests about tasks, which upstreams create in place of results. */
export function addCalls(parts: WithPolicy) {
  const { config, logger, registry, access, forwards, tasks, declaredParams, resourceLinks } = parts;
  const { open, shared, replicaId: replica, sessionBindings, toolCalls } = parts;
  const calling: CallDeps = {
    calls: parts.calls,
    resourceLinks,
    maxResponseBytes: config.pipeline.bodyLimits.response,
    log: logger.target('service::forward'),
  };
  const suspendedCalls = new SuspendedCalls({
    sealer: parts.sealer,
    replica,
    limit: config.suspendedCallsLimit,
    timeoutMs: config.suspendedCallTimeoutMs,
  });
  const taskEvents = new TaskEvents(parts);
  // Not closed at the end: that would cancel tasks upstream whose calls continue after a restart.
  const operations = new RunningOperations(calling.calls, calling.log);
  const taskDeps: TaskDeps = {
    ...calling,
    tasks,
    operations,
    upstreams: forwards.upstreams,
    clientInfo: SERVER_INFO,
  };
  const createdTasks = new CreatedTasks({
    ...taskDeps,
    isEnabled: config.tasksForPlainClients,
    events: taskEvents,
    onCreated: (task, session, headers) => sessionTasks.onCreated(task, session, headers),
    suspendedCalls,
    suspendedMs: config.suspendedCallTimeoutMs,
  });
  const sessions = {
    callSessionPool: new CallSessionPool(calling.calls, (...message) => onTaskMessage(tasks, ...message)),
    sessionBindings,
  };
  const mcp: McpParts = {
    ...calling,
    ...sessions,
    serverInfo: SERVER_INFO,
    taskSupport: new TaskSupport(config.tasksForPlainClients),
    tasks: createdTasks,
    mirroredParams: (tool, capabilities) => declaredParams.expectedByUpstream(tool, capabilities),
    ensureEraKnown: (address) => forwards.upstreams.ensureEraKnown(address),
  };
  const sources = connectionSources(parts, mcp);
  const promotedCalls = new PromotedCalls({
    tasks,
    replica,
    isAlive: shared && ((id) => isAlive(shared, id)),
    afterMs: config.taskAutoAfterMs,
    maxCallMs: config.upstreamMaxTimeoutMs,
    maxBytes: config.maxTaskResultBytes,
    log: calling.log,
  });
  const upstreamHeaders = createUpstreamHeaders(config.forwardHeaders, labelParser(parts.identity, calling.log));
  const clientCalls = new Calls(upstreamHeaders, {
    access,
    connectionOf: (target) => connectionOf(target, sources),
    calls: calling.calls,
    suspendedCalls,
    promotedCalls,
    toolCalls,
    log: calling.log,
    check: (client, target) =>
      client.correlation.via === undefined ? declaredParams.check(client, client.mcpHeaders, target) : undefined,
  });
  const taskRequests = new TaskRequests({
    ...taskDeps,
    toolCalls,
    clientOf: (...request) => clientCalls.clientOf(...request),
    sessions,
  });
  const taskWatcherOptions: TaskWatcherOptions = {
    tasks,
    clientInfo: SERVER_INFO,
    upstreamOf: (task) => storedTarget(taskDeps, task)?.upstream,
    polls: new TaskPolls((task, headers) => taskRequests.read(task, headers)),
    isHidden: (record) => access.checkStored(record) !== undefined,
  };
  const sessionTasks = new SessionTasks(taskWatcherOptions);
  const stopFollowing = registry.committed.subscribe(({ lists }) => {
    runSteps(suspendedCalls.expireHidden());
    sessionBindings.endHidden();
    tasks.discardWhere((record) => isDetached(record, registry.current));
    if (lists.some(({ kind }) => kind === 'resource')) sessionBindings.onResourcesChanged();
  });
  open.defer(stopFollowing);
  return {
    ...parts,
    suspendedCalls,
    clientCalls,
    upstreamHeaders,
    promotedCalls,
    createdTasks,
    taskRequests,
    taskEvents,
    taskWatcherOptions,
    sessionTasks,
    cancelTask: (task: Task) => taskRequests.cancel(task),
  };
}

/** With `identity`, labels cannot name the headers that say who calls. */
function labelParser(identity: Identity, log: TargetLogger): (label: string) => readonly string[] {
  return labelHeadersWithout(
    () => identity.receivedHeaders,
    (header, label) =>
      log.warn('label service.forward_headers names a header that is never forwarded', { header, label }),
  );
}

function connectionSources({ forwards, bridge }: WithPolicy, mcp: McpParts): ConnectionSources {
  const connections = new WeakMap<Upstream, McpConnection>();
  const connectionTo = (upstream: Upstream) =>
    connections.getOrInsertComputed(upstream, () => new McpConnection(upstream, mcp));
  return {
    forward(name) {
      const upstream = forwards.upstreams.of(name);
      return upstream ? connectionTo(upstream) : forwards.connection(name);
    },
    entry: bridge,
    server: (address) => connectionTo(forwards.upstreams.at(address)),
  };
}

/** True for a task whose forward is gone, or has another address than when it was created. */
function isDetached({ forward, address }: TaskRecord, { forwards }: Snapshot): boolean {
  return forward !== undefined && forwards.get(forward)?.address !== address;
}

/** Whether another replica may be alive: unknown while the database cannot be reached. */
async function isAlive({ members }: ReplicatedLog, id: string): Promise<boolean> {
  const replicas = await members.list().catch(() => undefined);
  return replicas?.some((replica) => replica.id === id && replica.isLive) ?? true;
}

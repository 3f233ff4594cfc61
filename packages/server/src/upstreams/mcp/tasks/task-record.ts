import type { Era } from '@sluice/protocol/mcp/constants';
import { isTerminal, TASK_STATUSES, type TaskState, type TaskStatus } from '@sluice/protocol/mcp/tasks';
import { z } from 'zod';
import { quotaOwnerSchema } from '../../../http/quota.ts';
import { type StoredPrincipal, storedPrincipal } from '../../../identity/principal.ts';
import { storedCall } from '../../../telemetry/call-observer.ts';

const statusSchema = z.enum(TASK_STATUSES);
const eraSchema = z.enum(['legacy', 'modern']);

/** A request of its upstream that a task needs input for. */
const inputRequestSchema = z.object({
  /** Key that a modern client responds under. */
  key: z.string(),
  /** Id of the request of a legacy upstream, and the request for the client, as JSON text. */
  requestId: z.string().optional(),
  request: z.string().optional(),
});
/** See {@link inputRequestSchema}. */
export type InputRequestRecord = Readonly<z.output<typeof inputRequestSchema>>;

const commonSchema = z.object({
  /** Our id, which clients use: 128 random bits. */
  id: z.string(),
  namespace: z.string(),
  /** Who may use it. */
  principal: storedPrincipal,
  /** Whom the task counts for. */
  holder: quotaOwnerSchema,
  clientEra: eraSchema,
  /** Forward of the upstream; undefined for the upstream of a manually registered tool. */
  forward: z.string().optional(),
  /** Address of the upstream: a forward that has another one does not get the id. */
  address: z.string(),
  /** The called tool: its key in the namespace, and its name at the upstream if it was discovered. */
  tool: z.object({ key: z.string(), upstreamKey: z.string().optional(), copied: z.literal(true).optional() }),
  /** Id of the events of its call, and that call if another process may have to record its end. */
  eventId: z.string().optional(),
  call: storedCall.optional(),
  /** ISO 8601. */
  createdAt: z.string(),
  /** Epoch milliseconds, by our clock. */
  created: z.number(),
  /** As last reported by the upstream; final once it is terminal. */
  status: statusSchema,
  statusMessage: z.string().optional(),
  /** ISO 8601. */
  lastUpdatedAt: z.string(),
  /** Milliseconds. */
  ttlMs: z.number(),
  pollIntervalMs: z.number().optional(),
  /** When the record is removed, in epoch milliseconds. */
  expires: z.number(),
  /** The latest states that became known; `at` in epoch milliseconds. */
  states: z.array(z.object({ status: statusSchema, at: z.number() })),
  /** A legacy client has canceled it: its clients see that status from then on, whatever the upstream reports. */
  isCanceled: z.boolean().optional(),
  /** How it ended, if that became known otherwise than by its status. */
  end: statusSchema.optional(),
});

const callTaskSchema = commonSchema.extend({
  kind: z.literal('call'),
  /** The process that has the call and its result. */
  replica: z.string(),
});

const upstreamTaskSchema = commonSchema.extend({
  /** A core task of 2025-11-25, of a legacy upstream; or a task of the extension, of a modern one. */
  kind: z.enum(['core', 'extension']),
  /** Id at the upstream. */
  upstreamId: z.string(),
  /** Session of the legacy client that created it. */
  clientSession: z.string().optional(),
  /** Polled on behalf of a client that does not support tasks, and therefore does not know the id. */
  isInternal: z.literal(true).optional(),
  /** The call of a legacy client that waits for the result: its id, as JSON text. */
  callId: z.string().optional(),
  /** Progress token upstream, and that of the client as JSON text. */
  progress: z.object({ upstream: z.string(), client: z.string() }).optional(),
  /** Core task: upstream session that its requests are sent in. */
  session: z.object({ id: z.string().optional(), protocolVersion: z.string() }).optional(),
  /** Requests for input that the upstream has no response to; of a core task, if its client is a modern one. */
  inputRequests: z.array(inputRequestSchema),
  /** Extension: its result has `isError`. The task has failed for legacy clients, and is completed for modern ones. */
  isError: z.boolean().optional(),
});

/** Schema of {@link TaskRecord}. */
export const recordSchema = z.discriminatedUnion('kind', [callTaskSchema, upstreamTaskSchema]);

/** A promoted call: one that became a task here. */
export type CallRecord = Readonly<z.output<typeof callTaskSchema>>;
/** A task of an upstream. */
export type UpstreamRecord = Readonly<z.output<typeof upstreamTaskSchema>>;
/** A task that a client knows by an id of ours. */
export type TaskRecord = CallRecord | UpstreamRecord;
/** Changed members of a record, of those that its kind has. */
export type TaskChange = Partial<Omit<UpstreamRecord, 'id' | 'kind'>>;

/** The state of a new task. */
export type NewState = Omit<TaskState, 'taskId'>;

/** The status of a task as its clients see it; that it was canceled counts before its upstream has confirmed that. */
export function statusOf({ status, isCanceled, end = status }: TaskRecord): TaskStatus {
  if (isCanceled) return 'cancelled';
  return isTerminal(status) ? status : end;
}

/** True for a task whose end is not known. */
export function isOpen(record: TaskRecord): boolean {
  return !isTerminal(statusOf(record));
}

/** True for a task that its upstream has to end: that has not ended, and was not canceled. */
export function isActive({ status, isCanceled }: TaskRecord): boolean {
  return !isTerminal(status) && !isCanceled;
}

/** True for a task that no client knows. */
export function isInternal(record: TaskRecord): boolean {
  return record.kind !== 'call' && record.isInternal === true;
}

/** Owner of a task. Ids are scoped to namespace and principal. */
export interface TaskOwner {
  readonly namespace: string | undefined;
  readonly principal: Pick<StoredPrincipal, 'key'>;
}

export function isOwnedBy(record: TaskRecord, { namespace, principal }: TaskOwner): boolean {
  return record.namespace === namespace && record.principal.key === principal.key;
}

/** The era of the upstream of a task. */
export function eraOf({ kind }: TaskRecord): Era {
  return kind === 'core' ? 'legacy' : 'modern';
}

/** The state of a task as far as its record knows it, under our id. */
export function stateOf(record: TaskRecord): TaskState {
  const { id: taskId, isCanceled, statusMessage, createdAt, lastUpdatedAt, ttlMs, pollIntervalMs } = record;
  const hasFailed = record.kind === 'extension' && record.isError && record.clientEra === 'legacy';
  const status = isCanceled ? 'cancelled' : hasFailed ? 'failed' : record.status;
  return { taskId, status, statusMessage, createdAt, lastUpdatedAt, ttlMs, pollIntervalMs };
}

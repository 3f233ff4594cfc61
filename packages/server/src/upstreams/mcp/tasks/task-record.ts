import type { Emitter } from '@sluice/protocol/emitter';
import type { Era } from '@sluice/protocol/mcp/constants';
import { isTerminal, TASK_STATUSES, type TaskState, type TaskStatus } from '@sluice/protocol/mcp/tasks';
import { z } from 'zod';
import { quotaOwnerSchema } from '../../../http/shares.ts';
import { type StoredPrincipal, storedPrincipal } from '../../../identity/principal.ts';

const statusSchema = z.enum(TASK_STATUSES);

/** The call that a task continues, as far as its last event needs it. */
const callSchema = z.object({
  toolType: z.string(),
  conversationId: z.string().optional(),
  requestId: z.string().optional(),
  via: z.literal('console').optional(),
  /** Epoch milliseconds. */
  startedAt: z.number(),
  trace: z
    .object({ traceId: z.string(), spanId: z.string(), sampled: z.boolean(), state: z.string().optional() })
    .optional(),
});

const eraSchema = z.enum(['legacy', 'modern']);

/** A request of a legacy upstream that a task needs input for. */
const questionSchema = z.object({
  /** Key that a modern client responds under. */
  key: z.string(),
  /** Id of the request upstream, as JSON text. */
  requestId: z.string(),
  method: z.string(),
  /** JSON text. */
  params: z.string().optional(),
});

/** The part of a record that changes. */
const changeSchema = z.object({
  /** As last reported by the upstream; final once it is terminal. */
  status: statusSchema,
  statusMessage: z.string().optional(),
  /** ISO 8601. */
  lastUpdatedAt: z.string(),
  /** Milliseconds; null: unlimited. */
  ttlMs: z.number().nullable(),
  pollIntervalMs: z.number().optional(),
  /** When the record is removed, in epoch milliseconds. */
  expires: z.number(),
  /** A legacy client has canceled it: its clients see that status from then on, whatever the upstream reports. */
  isCanceled: z.boolean().optional(),
  /** The latest states that became known; `at` in epoch milliseconds. */
  states: z.array(z.object({ status: statusSchema, at: z.number() })).optional(),
  /** When its end became known, or a client canceled it: its call has its last event. */
  endedAt: z.number().optional(),
  /** Its result has `isError`: the task has failed for legacy clients, and is completed for modern ones. */
  isError: z.boolean().optional(),
  /** Keys of the input that a modern upstream waits for. */
  openKeys: z.array(z.string()).optional(),
  /** Requests for input of a legacy upstream that a modern client has not responded to. */
  questions: z.array(questionSchema).optional(),
  /** Upstream session that its requests are sent in. */
  session: z.object({ id: z.string().optional(), protocolVersion: z.string() }).optional(),
});

/** Schema of {@link TaskRecord}. */
export const recordSchema = changeSchema.extend({
  /** Our id, which clients use: 128 random bits. */
  id: z.string(),
  namespace: z.string(),
  /** Who may use it. */
  principal: storedPrincipal,
  /** Whom the task counts for. */
  holder: quotaOwnerSchema,
  /** Session of the legacy client that created it. */
  clientSession: z.string().optional(),
  /** Forward of the upstream; undefined for the upstream of a manually registered tool. */
  forward: z.string().optional(),
  /** Address of the upstream: a forward that has another one does not get the id. */
  address: z.string(),
  /** Id at the upstream. */
  upstreamId: z.string(),
  /** Era of the upstream. */
  era: eraSchema,
  /** Era of the client, if it is the other one. */
  clientEra: eraSchema.optional(),
  /** The called tool: its key in the namespace, and its name at the upstream if it was discovered. */
  tool: z.object({ key: z.string(), upstreamKey: z.string().optional(), copied: z.literal(true).optional() }),
  /** The process that has the call, for a plain call that became a task: only that process has the result. */
  replica: z.string().optional(),
  /** Polled on behalf of a client that does not support tasks, and therefore does not know the id. */
  isInternal: z.literal(true).optional(),
  /** The call of a legacy client that waits for the result: its id, as JSON text. */
  callId: z.string().optional(),
  /** Progress token upstream, and that of the client as JSON text. */
  progress: z.object({ upstream: z.string(), client: z.string() }).optional(),
  /** Id of the events of its call. */
  eventId: z.string().optional(),
  /** The call that it continues; undefined if the process that has the call reports its end. */
  call: callSchema.optional(),
  /** ISO 8601. */
  createdAt: z.string(),
  /** Epoch milliseconds, by our clock. */
  created: z.number(),
});

/** Schema of {@link TaskChange}. */
export const taskChangeSchema = changeSchema.partial();

/** A task of an upstream that a client knows by an id of ours. */
export type TaskRecord = Readonly<z.output<typeof recordSchema>>;
/** Changed members of a record. */
export type TaskChange = Readonly<z.output<typeof taskChangeSchema>>;

/** The status of a task as its clients see it; that it was canceled counts before its upstream has confirmed that. */
export function statusOf({ status, isCanceled, endedAt }: TaskRecord): TaskStatus {
  return isCanceled || (endedAt !== undefined && !isTerminal(status)) ? 'cancelled' : status;
}

/** True if a task is one of this principal in this namespace. */
export function isOwnedBy(
  record: TaskRecord,
  namespace: string | undefined,
  principal: Pick<StoredPrincipal, 'key'>,
): boolean {
  return record.namespace === namespace && record.principal.key === principal.key;
}

/** True for a task whose end is not known. */
export function isOpen(record: TaskRecord): boolean {
  return !isTerminal(statusOf(record));
}

/** A request of a legacy upstream that a task needs input for. */
export type TaskQuestion = Readonly<z.output<typeof questionSchema>>;

/** Returns the era of the client of a task. */
export function clientEraOf({ era, clientEra }: TaskRecord): Era {
  return clientEra ?? era;
}

/** The state of a task as far as its record knows it, under our id. */
export function stateOf(record: TaskRecord): TaskState {
  const { id: taskId, isCanceled, isError, statusMessage, createdAt, lastUpdatedAt, ttlMs, pollIntervalMs } = record;
  const hasFailed = isError === true && clientEraOf(record) === 'legacy';
  const status = isCanceled ? 'cancelled' : hasFailed ? 'failed' : record.status;
  return { taskId, status, statusMessage, createdAt, lastUpdatedAt, ttlMs, pollIntervalMs };
}

/** The record that another replica has stored; undefined if it has removed it. */
export interface ForeignTask {
  readonly id: string;
  readonly record: TaskRecord | undefined;
}

/** Persistence of task records, by their ids. Every promise resolves once its change is durable. */
export interface TaskStore {
  /** Whether the records outlive the process. */
  readonly isDurable: boolean;
  /** Returns the stored records. Called once, before anything else. */
  load(): Promise<readonly TaskRecord[]>;
  /** Stores a new record. Rejects with `StoreError`. */
  put(record: TaskRecord): Promise<void>;
  /** Changes members of a record; one that is not stored any more is ignored. Rejects with `StoreError`. */
  change(id: string, change: TaskChange): Promise<void>;
  /** Removes a record, if it is stored. Rejects with `StoreError`. */
  remove(id: string): Promise<void>;
  /** Finishes pending writes. Throws `StoreError`. */
  close(): Promise<void>;
  /** Another replica has stored, changed or removed a record; undefined without other replicas. */
  readonly changed?: Emitter<ForeignTask>;
  /** Brings the records up to date with other replicas. Rejects with `StoreError`. */
  refresh?(): Promise<void>;
}

/** A store without persistence. */
export function memoryTaskStore(): TaskStore {
  return {
    isDurable: false,
    load: async () => [],
    put: async () => {},
    change: async () => {},
    remove: async () => {},
    close: async () => {},
  };
}

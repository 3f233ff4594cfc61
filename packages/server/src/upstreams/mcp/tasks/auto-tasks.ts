import { randomUUID } from 'node:crypto';
import type { JsonObject } from '@sluice/protocol/json/parse';
import { memberText } from '@sluice/protocol/json/text';
import { INTERNAL_ERROR, SERVER_ERROR } from '@sluice/protocol/mcp/constants';
import type { RequestMessage } from '@sluice/protocol/mcp/message';
import { declaresTasks, isTerminal, type TaskStatus, taskJson } from '@sluice/protocol/mcp/tasks';
import { rpcError } from '../../../http/outcome.ts';
import { quotaOwner, Shares } from '../../../http/shares.ts';
import { toStored } from '../../../identity/principal.ts';
import { type Entry, TASK_LABEL } from '../../../registry/entries.ts';
import type { TargetLogger } from '../../../telemetry/log.ts';
import type { ClientFacts } from '../../client-facts.ts';
import type { RequestOutcome } from '../../deferred-outcome.ts';
import type { ResponseSink } from '../../response-sink.ts';
import { type AutoCall, AutoTask, type AutoTaskOwner, POLL_INTERVAL_MS } from './auto-task.ts';
import { eventTaskOf } from './task-events.ts';
import { stateOf, type TaskRecord } from './task-record.ts';
import { ACKNOWLEDGED } from './task-requests.ts';
import { MAX_TTL_MS, type Tasks } from './tasks.ts';

/** Default of SERVICE_TASK_AUTO_AFTER_MS. */
export const AUTO_AFTER_MS = 10_000;
/** Default of SERVICE_MAX_TASK_RESULT_BYTES. */
export const MAX_TASK_RESULT_BYTES = 64 * 1024 * 1024;
/** Time for which the result of the longest call can be polled, in milliseconds. */
const RESULT_MS = 3_600_000;

export interface AutoTasksOptions {
  readonly tasks: Tasks;
  /** Id of this process, which alone knows the calls and their results. */
  readonly replica: string;
  /** Whether another process with this id may be alive; undefined without any. */
  readonly isAlive: ((replica: string) => Promise<boolean>) | undefined;
  /** Time after which a call becomes a task, in milliseconds. */
  readonly afterMs: number;
  /** Longest time that a call may take, in milliseconds. */
  readonly maxCallMs: number;
  /** Memory for what all tasks keep. */
  readonly maxBytes: number;
  readonly log: Pick<TargetLogger, 'error'>;
}

/** Plain calls that become tasks when they take long, for tools with the label `service.task=auto` (docs/tasks.md). */
export class AutoTasks implements AutoTaskOwner {
  readonly #options: AutoTasksOptions;
  readonly #held = new Map<string, AutoTask>();
  readonly #bytes: Shares<string>;

  constructor(options: AutoTasksOptions) {
    this.#options = options;
    this.#bytes = new Shares(options.maxBytes);
    const { tasks } = options;
    tasks.removed.subscribe(({ id }) => this.#drop(id));
    tasks.canceled.subscribe(({ id }) => this.#held.get(id)?.cancel());
    // Those of an earlier process, unless it may be alive.
    if (options.isAlive) return;
    for (const record of tasks.all()) if (record.replica !== undefined) this.#lose(record);
  }

  /** Whether a call of this entry becomes a task if it takes long. */
  accepts(entry: Entry | undefined, { era, capabilities }: ClientFacts): boolean {
    return entry?.labels[TASK_LABEL] === 'auto' && era === 'modern' && declaresTasks(capabilities);
  }

  /** Starts a call that becomes a task if it takes long: `send` sends it, with this sink around that of its client. */
  start(call: AutoCall, sink: ResponseSink, send: (sink: ResponseSink) => void): void {
    new AutoTask(call, this, sink).start(send, this.#options.afterMs);
  }

  /** The outcome of a request about a task of this kind. */
  async request({ method, text }: RequestMessage, record: TaskRecord): Promise<RequestOutcome> {
    const task = this.#held.get(record.id);
    if (!task) return this.#requestLost(method, record);
    if (method === 'tasks/get') return task.state(record);
    if (method === 'tasks/update') return task.update(memberText(memberText(text, 'params') ?? '{}', 'inputResponses'));
    task.cancel();
    return ACKNOWLEDGED;
  }

  /** Ends the call of a task that was removed. */
  #drop(id: string): void {
    const task = this.#held.get(id);
    this.#held.delete(id);
    this.#bytes.delete(id);
    task?.cancel();
  }

  async create(task: AutoTask, { target: { entry, forward }, address }: AutoCall): Promise<TaskRecord | undefined> {
    const { tasks, replica, maxCallMs } = this.#options;
    const { namespace = '', principal, address: clientAddress, facts } = task.client;
    const now = new Date().toISOString();
    const record = await tasks.create(
      {
        namespace,
        principal: toStored(principal),
        holder: quotaOwner(namespace, principal, clientAddress),
        forward,
        address,
        era: 'modern',
        tool: { key: entry?.key ?? '', upstreamKey: entry?.discovered?.upstreamKey, copied: entry?.discovered?.copied },
        replica,
        eventId: facts?.call?.eventId,
      },
      {
        taskId: randomUUID(),
        status: 'working',
        statusMessage: undefined,
        createdAt: now,
        lastUpdatedAt: now,
        ttlMs: Math.min(maxCallMs + RESULT_MS, MAX_TTL_MS),
        pollIntervalMs: POLL_INTERVAL_MS,
      },
    );
    // It may have been removed before it was durable.
    if (!record || !tasks.get(record.id)) return undefined;
    this.#held.set(record.id, task);
    if (facts?.call) facts.call.task = () => eventTaskOf(tasks.get(record.id) ?? record);
    return record;
  }

  remove(record: TaskRecord): void {
    this.#options.tasks.remove(record);
  }

  current({ id }: TaskRecord): TaskRecord | undefined {
    return this.#options.tasks.get(id);
  }

  onError(error: unknown): void {
    this.#options.log.error('task could not be stored', { error });
  }

  report({ id }: TaskRecord, status: TaskStatus, statusMessage: string | undefined): void {
    const { tasks } = this.#options;
    const record = tasks.get(id);
    if (!record) return;
    const state = { ...stateOf(record), status, statusMessage, lastUpdatedAt: new Date().toISOString() };
    tasks.observe(record, state, { by: status === 'cancelled' ? 'cancelled' : 'returned' });
  }

  reserve({ id, holder }: TaskRecord, bytes: number): boolean {
    if (!this.#held.has(id)) return false;
    const before = this.#bytes.delete(id);
    const hasRoom = this.#bytes.makeRoom(holder, bytes, (other) => this.#held.get(other)?.displace());
    if (hasRoom) this.#bytes.set(id, holder, bytes);
    else if (before) this.#bytes.set(id, holder, 0);
    return hasRoom;
  }

  /** The outcome for a task whose call is not known here. */
  async #requestLost(method: string, record: TaskRecord): Promise<RequestOutcome> {
    const { replica = '' } = record;
    const { tasks, isAlive, replica: own } = this.#options;
    if (replica !== own && (await isAlive?.(replica))) {
      return rpcError(SERVER_ERROR, 'the replica that has this call cannot be reached: try again later', 503);
    }
    this.#lose(record);
    if (method !== 'tasks/get') return ACKNOWLEDGED;
    const state = taskJson('modern', { ...stateOf(tasks.get(record.id) ?? record), status: 'failed' });
    return { kind: 'result', json: JSON.stringify({ resultType: 'complete', ...state, error: LOST }) };
  }

  #lose(record: TaskRecord): void {
    if (isTerminal(record.status)) return;
    const state = { ...stateOf(record), status: 'failed' as const, lastUpdatedAt: new Date().toISOString() };
    this.#options.tasks.observe(record, state, { by: 'returned', content: { error: LOST } });
  }
}

const LOST: JsonObject = {
  code: INTERNAL_ERROR,
  message: 'outcome unknown: the call or its result was lost in a restart of the service',
};

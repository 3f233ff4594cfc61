import { randomBytes } from 'node:crypto';
import type { TaskEnd } from '@sluice/contract';
import { Emitter } from '@sluice/protocol/emitter';
import { isTerminal } from '@sluice/protocol/mcp/tasks';
import type { Target } from '../../../access/target.ts';
import { Quota, type QuotaOwner, quotaOwner } from '../../../http/quota.ts';
import { toStored } from '../../../identity/principal.ts';
import { Collection } from '../../../registry/store/collection.ts';
import type { RecordLog } from '../../../registry/store/record-log.ts';
import type { ClientFacts } from '../../client-facts.ts';
import type { UpstreamSession } from '../upstream-sessions.ts';
import {
  type EndedTask,
  expiryOf,
  isReported,
  isUpstreamTask,
  reportedState,
  Task,
  type TaskTable,
  type UpstreamTask,
} from './task.ts';
import {
  type CallRecord,
  isActive,
  isInternal,
  isOpen,
  isOwnedBy,
  type NewState,
  recordSchema,
  type TaskChange,
  type TaskOwner,
  type TaskRecord,
  type UpstreamRecord,
} from './task-record.ts';

/** Time between two searches for expired records. */
const SWEEP_MS = 15_000;
/** Records that are removed at once, and time until the next ones, in milliseconds: many of them have to be canceled upstream. */
const DISCARDED_AT_ONCE = 100;
const DISCARD_PAUSE_MS = 100;

/** Defaults of SERVICE_MAX_TASKS and SERVICE_MAX_TASKS_PER_USER. */
export const TASK_LIMITS: TaskLimits = { total: 100_000, perUser: 1_000 };

/** Numbers of tasks: of all users together, and of one. */
export interface TaskLimits {
  readonly total: number;
  readonly perUser: number;
}

type New<Kind extends TaskRecord> = Omit<Kind, 'id' | 'created' | 'expires' | 'states' | keyof NewState>;

/** Members of a new record that its creator knows, besides its state. */
export type NewTask = (New<CallRecord> | New<UpstreamRecord>) & {
  /** Longest life of the record in milliseconds, if that is shorter than the life of its task. */
  readonly maxLifeMs?: number;
};

/** Returns the members of a new record that the client, the called tool and the address of its executor determine. */
export function newTask(
  { namespace = '', principal, address: clientAddress, era }: ClientFacts,
  { entry, forward }: Partial<Pick<Target, 'entry' | 'forward'>>,
  address: string,
): Pick<NewTask, 'namespace' | 'principal' | 'holder' | 'clientEra' | 'tool' | 'address' | 'forward'> {
  const { key = '', discovered } = entry ?? {};
  const tool = { key, upstreamKey: discovered?.upstreamKey, copied: discovered?.copied };
  const holder = quotaOwner(namespace, principal, clientAddress);
  return { namespace, principal: toStored(principal), holder, clientEra: era, tool, address, forward };
}

export interface TasksOptions {
  readonly log: RecordLog;
  readonly limits?: TaskLimits;
  /** Epoch milliseconds; defaults to the system clock. */
  readonly now?: () => number;
}

/**
 * The tasks of upstreams that clients know, under ids of ours: an upstream sees one client for all users, and could list or guess
 * the ids of others. Their number is limited: all users have a total in common, and each a limit of its own.
 */
export class Tasks implements TaskTable {
  readonly now: () => number;
  readonly #log: RecordLog;
  /** What is stored of the tasks. */
  readonly #records = new Collection({ name: 'tasks', schema: recordSchema, expires: ({ expires }) => expires });
  readonly #limits: TaskLimits;
  readonly #tasks = new Map<string, Task>();
  /** The latest one by {@link placesOf}: an upstream may use an id for any number of tasks. */
  readonly #latest = new Map<string, Task>();
  readonly #quota: Quota<Task>;
  readonly #timer = setInterval(() => this.removeExpired(), SWEEP_MS).unref();
  /** Tasks that are to be removed, and why. */
  readonly #outdated = new Map<Task, TaskEnd | undefined>();
  #discardTimer: NodeJS.Timeout | undefined = undefined;
  /** A task was created here. */
  readonly created = new Emitter<TaskRecord>();
  readonly changed = new Emitter<TaskRecord>();
  readonly ended = new Emitter<EndedTask>();
  /** A record is removed although its task may be running: nobody can get its result any more. */
  readonly orphaned = new Emitter<UpstreamTask>();
  /** A record was removed, for whatever reason. */
  readonly removed = new Emitter<TaskRecord>();
  readonly canceled = new Emitter<TaskRecord>();

  constructor({ log, limits = TASK_LIMITS, now = Date.now }: TasksOptions) {
    this.#log = log;
    this.now = now;
    this.#limits = limits;
    this.#quota = new Quota(limits.total);
  }

  /** Loads the stored records. Throws `StoreError`. */
  async load(): Promise<void> {
    await this.#records.open(this.#log);
    this.#records.changed.subscribe(({ id, content, isForeign }) => isForeign && this.#follow(id, content));
    for (const [, record] of this.#records.entries()) this.#add(record, this.#log.isShared);
    this.removeExpired();
  }

  /**
   * Stores a new task; resolves once it is durable. The session of a core task stays open until that has ended. Undefined if its
   * owner may have no more tasks; rejects with `StoreError`.
   */
  async create(task: NewTask, state: NewState, session?: UpstreamSession): Promise<Task | undefined> {
    const now = this.now();
    const { maxLifeMs = Number.POSITIVE_INFINITY, ...known } = task;
    const record: TaskRecord = {
      ...known,
      ...reportedState(state),
      // Never begins with "-", as options on command lines do.
      id: randomBytes(16).toString('hex'),
      createdAt: state.createdAt,
      created: now,
      states: [{ status: state.status, at: now }],
      expires: Math.min(expiryOf(now, state), now + maxLifeMs),
    };
    if (!this.#makeRoom(record.holder)) return undefined;
    const created = this.#add(record, false);
    if (session) created.pin(session);
    try {
      await this.#records.put(record.id, record);
    } catch (error) {
      this.#drop(created);
      throw error;
    }
    if (!isInternal(record)) this.created.emit(record);
    return created;
  }

  /** Number of tasks whose end is not known, without those that no client knows. */
  get openCount(): number {
    return this.#tasks.values().reduce((sum, { record }) => sum + (isOpen(record) && !isInternal(record) ? 1 : 0), 0);
  }

  /** All tasks, the oldest first. */
  all(): Task[] {
    return [...this.#tasks.values()].sort((a, b) => a.record.created - b.record.created);
  }

  /** Returns the task with this id of ours, whoever's it is. */
  get(id: string): Task | undefined {
    return this.#tasks.get(id);
  }

  /** The process that has the call of a task; undefined for tasks of upstreams, and for unknown ones. */
  async locate(id: string): Promise<string | undefined> {
    const { record } = (await this.#lookUp(id)) ?? {};
    return record?.kind === 'call' ? record.replica : undefined;
  }

  /** Returns the task with this id of ours; undefined if there is none of this owner. */
  async find(id: string, owner: TaskOwner): Promise<Task | undefined> {
    const task = await this.#lookUp(id);
    return task && this.#isVisibleTo(owner, task) ? task : undefined;
  }

  /** Returns the core task with this id, or with this progress token, at the upstream with this address, in a session there. */
  findAt(kind: 'id' | 'token', { address, session }: TaskPlace, text: string): UpstreamTask | undefined {
    const task = this.#latest.get(keyOf(kind, address, session, text));
    return task && isUpstreamTask(task) ? task : undefined;
  }

  /**
   * The tasks of an owner that legacy clients have created, oldest first. An anonymous client is known by its session
   * only, and gets the tasks that were created there.
   */
  list(owner: TaskOwner, clientSession: string | undefined): Task[] {
    const { principal } = owner;
    const own =
      principal.key === ''
        ? this.ofSession(clientSession ?? '')
        : [...this.#quota.items(quotaOwner('', principal, undefined))];
    return own.filter((task) => this.#isVisibleTo(owner, task) && task.record.clientEra === 'legacy');
  }

  /** Returns the tasks that were created in a session of a client, oldest first. */
  ofSession(clientSession: string): UpstreamTask[] {
    const all = this.#tasks.values().filter(isUpstreamTask);
    return [...all.filter(({ record }) => record.clientSession === clientSession)];
  }

  /** Returns the task whose result a call of a legacy client waits for; `idText` is the id of the call. */
  ofCall(clientSession: string, idText: string): UpstreamTask | undefined {
    const now = this.now();
    return this.ofSession(clientSession).find(({ record }) => record.callId === idText && record.expires > now);
  }

  /** Brings the records up to date with other replicas, if there are any. */
  async refresh(): Promise<void> {
    if (this.#log.isShared) await this.#log.refresh().catch(() => undefined);
  }

  store(id: string, change: TaskChange): Promise<void> {
    return this.#records.update(id, (before) => {
      if (!before) return undefined;
      const { status = before.status } = change;
      // Another replica knows more: a status that is terminal never changes.
      return isTerminal(before.status) && status !== before.status ? undefined : { ...before, ...change };
    });
  }

  remove(task: Task): void {
    if (this.#drop(task)) this.#records.remove(task.id).catch(() => undefined);
  }

  /** Removes a task that may be running: nobody can get its result any more. */
  discard(task: Task, by: TaskEnd = 'discarded'): void {
    const { record, isForeign, isRemoved } = task;
    // While its session is open.
    if (isUpstreamTask(task) && isActive(record)) this.orphaned.emit(task);
    this.remove(task);
    // Of replicas that remove a record, the one that stored it reports that.
    if (!isForeign && !isRemoved && isReported(record)) this.ended.emit({ record, by });
  }

  /** Removes the tasks for whose records this is true: some at once, the others soon. */
  discardWhere(test: (record: TaskRecord) => boolean, by?: TaskEnd): void {
    for (const task of this.#tasks.values()) if (test(task.record)) this.#outdated.set(task, by);
    if (!this.#discardTimer) this.#discardNext();
  }

  #discardNext(): void {
    for (const [task, by] of this.#outdated.entries().take(DISCARDED_AT_ONCE)) {
      this.#outdated.delete(task);
      if (!task.isRemoved) this.discard(task, by);
    }
    const isOver = this.#outdated.size === 0;
    this.#discardTimer = isOver ? undefined : setTimeout(() => this.#discardNext(), DISCARD_PAUSE_MS).unref();
  }

  /** Removes the expired tasks, as {@link discardWhere} does. */
  removeExpired(): void {
    const now = this.now();
    this.discardWhere(({ expires }) => expires <= now, 'expired');
  }

  /** Finishes pending writes. Sessions of tasks that will be lost are not kept open. Throws `StoreError`. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    clearTimeout(this.#discardTimer);
    if (!this.#log.isDurable) for (const task of this.#tasks.values()) task.unpin();
    await this.#records.close();
  }

  onMoved(task: Task, before: TaskRecord): void {
    this.#removePlaces(task, before);
    for (const key of placesOf(task.record)) this.#latest.set(key, task);
  }

  #add(record: TaskRecord, isForeign: boolean): Task {
    const task = new Task(this, record, isForeign);
    this.#tasks.set(task.id, task);
    this.#quota.set(task, record.holder, 1);
    for (const key of placesOf(record)) this.#latest.set(key, task);
    return task;
  }

  #drop(task: Task): boolean {
    if (task.isRemoved) return false;
    task.isRemoved = true;
    task.unpin();
    this.#tasks.delete(task.id);
    this.#quota.delete(task);
    this.#removePlaces(task, task.record);
    this.removed.emit(task.record);
    return true;
  }

  async #lookUp(id: string): Promise<Task | undefined> {
    // Another replica may just have created it.
    if (!this.get(id)) await this.refresh();
    return this.get(id);
  }

  #isVisibleTo(owner: TaskOwner, { record }: Task): boolean {
    return !isInternal(record) && isOwnedBy(record, owner) && record.expires > this.now();
  }

  /** Whether an owner may have another task; one with too many loses the oldest that has ended for it. */
  #makeRoom(owner: QuotaOwner): boolean {
    const own = [...this.#quota.items(owner)];
    if (own.length < this.#limits.perUser && this.#quota.allows(owner, 1)) return true;
    const ended = own.find(({ record }) => !isActive(record));
    if (ended) this.remove(ended);
    return ended !== undefined;
  }

  #follow(id: string, record: TaskRecord | undefined): void {
    const task = this.get(id);
    if (record && task) task.follow(record);
    else if (record) this.#add(record, true);
    else if (task) this.#drop(task);
  }

  #removePlaces(task: Task, record: TaskRecord): void {
    for (const key of placesOf(record)) if (this.#latest.get(key) === task) this.#latest.delete(key);
  }
}

/** A session at an upstream. */
export interface TaskPlace {
  readonly address: string;
  readonly session: string | undefined;
}

function keyOf(...parts: (string | undefined)[]): string {
  return JSON.stringify(parts);
}

/** What a core task is found by. */
function placesOf(record: TaskRecord): string[] {
  if (record.kind !== 'core') return [];
  const { address, session, upstreamId, progress } = record;
  const place = keyOf('id', address, session?.id, upstreamId);
  return progress ? [place, keyOf('token', address, session?.id, progress.upstream)] : [place];
}

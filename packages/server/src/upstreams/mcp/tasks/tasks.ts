import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { TaskEnd } from '@sluice/contract';
import { Emitter } from '@sluice/protocol/emitter';
import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { isTerminal, type TaskState } from '@sluice/protocol/mcp/tasks';
import { truncateCharacters } from '@sluice/protocol/text';
import type { Target } from '../../../access/target.ts';
import { type QuotaOwner, quotaOwner, Shares } from '../../../http/shares.ts';
import { toStored } from '../../../identity/principal.ts';
import { isErrorResult } from '../../../telemetry/tool-calls/event.ts';
import type { ClientFacts } from '../../client-facts.ts';
import type { UpstreamSession } from '../upstream-sessions.ts';
import { type KnownTask, TaskIndex } from './task-index.ts';
import {
  type CallTask,
  type CoreTask,
  type ExtensionTask,
  isActive,
  isInternal,
  isOpen,
  isOwnedBy,
  statusOf,
  type TaskChange,
  type TaskOwner,
  type TaskQuestion,
  type TaskRecord,
  type TaskStore,
  type UpstreamTask,
} from './task-record.ts';

/** Longest time to live of a task, in milliseconds. */
export const MAX_TTL_MS = 24 * 3600 * 1000;
/** Time for which a record outlives its task: until then its upstream responds that the task has expired. */
const GRACE_MS = 60_000;
/** Time between two searches for expired records. */
const SWEEP_MS = 15_000;
/** Records that are removed at once, and time until the next ones, in milliseconds: many of them have to be canceled upstream. */
const DISCARDED_AT_ONCE = 100;
const DISCARD_PAUSE_MS = 100;

/** States of a task that are stored. */
const MAX_STATES = 20;

/** Defaults of SERVICE_MAX_TASKS and SERVICE_MAX_TASKS_PER_USER. */
export const TASK_LIMITS: TaskLimits = { total: 100_000, perUser: 1_000 };

/** Numbers of tasks: of all users together, and of one. */
export interface TaskLimits {
  readonly total: number;
  readonly perUser: number;
}

/** The state of a new task. */
type NewState = Omit<TaskState, 'taskId'>;
type New<Kind extends TaskRecord> = Omit<Kind, 'id' | 'created' | 'expires' | 'states' | keyof NewState>;

/** Members of a new record that its creator knows, besides its state. */
export type NewTask = (New<CallTask> | New<CoreTask> | New<ExtensionTask>) & {
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

/** How a state of a task became known. */
export interface TaskReport {
  readonly by: TaskEnd;
  /** The message with it: its result or error, if the task has ended with one. */
  readonly content?: JsonObject | undefined;
}

/** A task whose end became known. */
export interface EndedTask extends TaskReport {
  readonly record: TaskRecord;
}

export interface TasksOptions {
  readonly store: TaskStore;
  readonly limits?: TaskLimits;
  /** Epoch milliseconds; defaults to the system clock. */
  readonly now?: () => number;
}

/** Longest time between two requests for the state of a task, and longest time that one waits for its turn, in milliseconds. */
const POLL_SPACING_MS = 100;
const MAX_POLL_WAIT_MS = 2_000;

/** Limits of the questions of one task: their number, and their size in characters. */
const MAX_QUESTIONS = 32;
const MAX_QUESTION_CHARACTERS = 256 * 1024;
/** Longest status message that a record keeps, and characters of the keys of open input, of which further ones are ignored. */
const MAX_MESSAGE_CHARACTERS = 1_000;
const MAX_KEY_CHARACTERS = 64 * 1024;

/**
 * The tasks of upstreams that clients know, under ids of ours: an upstream sees one client for all users, and could list or guess
 * the ids of others. Their number is limited: users share the total, and each has a limit of its own.
 */
export class Tasks extends TaskIndex {
  readonly #store: TaskStore;
  readonly #limits: TaskLimits;
  readonly #now: () => number;
  readonly #shares: Shares<string>;
  readonly #timer = setInterval(() => this.removeExpired(), SWEEP_MS).unref();
  /** Ids of records that are to be removed, and why. */
  readonly #outdated = new Map<string, TaskEnd | undefined>();
  #discardTimer: NodeJS.Timeout | undefined = undefined;
  /** A task was created here. */
  readonly created = new Emitter<TaskRecord>();
  /** A task has another status. */
  readonly changed = new Emitter<TaskRecord>();
  /** The end of a task became known here, once for each. */
  readonly ended = new Emitter<EndedTask>();
  /** A record is removed although its task may be running: nobody can get its result any more. */
  readonly orphaned = new Emitter<UpstreamTask>();
  /** A record was removed, for whatever reason. */
  readonly removed = new Emitter<TaskRecord>();
  /** A task was canceled, here or by another replica. */
  readonly canceled = new Emitter<TaskRecord>();

  constructor({ store, limits = TASK_LIMITS, now = Date.now }: TasksOptions) {
    super();
    this.#store = store;
    this.#limits = limits;
    this.#now = now;
    this.#shares = new Shares(limits.total);
    store.changed?.subscribe(({ id, content }) => this.#follow(id, content));
  }

  /** Loads the stored records. Throws `StoreError`. */
  async load(): Promise<void> {
    const isShared = this.#store.refresh !== undefined;
    for (const record of await this.#store.load()) this.add(record, undefined, isShared);
    this.removeExpired();
  }

  /**
   * Stores a new task; resolves once it is durable. The session of a core task stays open until that has ended. Undefined if its
   * holder may have no more tasks; rejects with `StoreError`.
   */
  async create(task: NewTask, state: NewState, session?: UpstreamSession): Promise<TaskRecord | undefined> {
    const now = this.#now();
    const { maxLifeMs = Number.POSITIVE_INFINITY, ...known } = task;
    const record: TaskRecord = {
      ...known,
      ...reported(state),
      // Never begins with "-", as options on command lines do.
      id: randomBytes(16).toString('hex'),
      createdAt: state.createdAt,
      created: now,
      states: [{ status: state.status, at: now }],
      expires: Math.min(expiryOf(now, state), now + maxLifeMs),
    };
    if (!this.#makeRoom(record.holder)) return undefined;
    this.add(record, session, false);
    try {
      await this.#store.put(record);
    } catch (error) {
      this.drop(record.id);
      throw error;
    }
    if (!isInternal(record)) this.created.emit(record);
    return record;
  }

  /** The process that has the call of a task; undefined for tasks of upstreams, and for unknown ones. */
  async locate(id: string): Promise<string | undefined> {
    const record = await this.#lookUp(id);
    return record?.kind === 'call' ? record.replica : undefined;
  }

  /** Returns the task with this id of ours; undefined if there is none of this owner. */
  async find(id: string, owner: TaskOwner): Promise<TaskRecord | undefined> {
    const record = await this.#lookUp(id);
    return record && this.#isVisibleTo(owner, record) ? record : undefined;
  }

  /**
   * The tasks of an owner that legacy clients have created, oldest first. An anonymous client is known by its session
   * only, and gets the tasks that were created there.
   */
  list(owner: TaskOwner, clientSession: string | undefined): TaskRecord[] {
    const { principal } = owner;
    const own =
      principal.key === ''
        ? this.ofSession(clientSession ?? '')
        : this.ofUser(quotaOwner('', principal, undefined).name);
    return own.filter((record) => this.#isVisibleTo(owner, record) && record.clientEra === 'legacy');
  }

  /** Returns the task whose result a call of a legacy client waits for; `idText` is the id of the call. */
  ofCall(clientSession: string, idText: string): UpstreamTask | undefined {
    const now = this.#now();
    return this.ofSession(clientSession).find(({ callId, expires }) => callId === idText && expires > now);
  }

  /** Sets the session that the requests of a core task are sent in from now on. */
  setSession({ id }: CoreTask, session: UpstreamSession): void {
    const task = this.tasks.get(id);
    if (!task || task.session === session) return;
    this.pin(task, session);
    this.#change(task, { session: sessionRecord(session) });
  }

  /**
   * Records the state that an upstream reports. False if it contradicts an earlier one: a status that is terminal never
   * changes.
   */
  observe({ id }: TaskRecord, state: TaskState, report: TaskReport = { by: 'polled' }): boolean {
    const task = this.tasks.get(id);
    if (!task) return true;
    const { record } = task;
    const { status } = state;
    const isChanged = record.status !== status;
    if (isChanged && isTerminal(record.status)) return false;
    const change: TaskChange = {
      ...reported(state),
      ...(record.kind === 'extension' && report.content && detailsOf(report.content)),
      ...(record.kind === 'core' && isTerminal(status) && { questions: [] }),
      ...(isChanged && { states: [...record.states, { status, at: this.#now() }].slice(-MAX_STATES) }),
      expires: expiryOf(record.created, state),
    };
    // Messages and times are not worth a write.
    const { statusMessage, lastUpdatedAt, pollIntervalMs } = record;
    const known = { statusMessage, lastUpdatedAt, pollIntervalMs };
    if (isDeepStrictEqual({ ...record, ...change, ...known }, { ...record, ...known })) this.set(task, change);
    else this.#change(task, change);
    // Those who poll know a message that another poll has found at their next one.
    const hasNewMessage = report.by !== 'polled' && statusMessage !== change.statusMessage;
    if (isChanged || hasNewMessage) task.changed.emit();
    if (!isReported(record)) return true;
    if (isTerminal(status)) this.ended.emit({ record: task.record, ...report });
    else if (isChanged) this.changed.emit(task.record);
    return true;
  }

  /** The end of a task is known: it was canceled, or has the result in the report. */
  end({ id }: TaskRecord, report: TaskReport): void {
    const task = this.tasks.get(id);
    if (!task || !isReported(task.record)) return;
    const end = isErrorResult(report.content?.result) ? 'failed' : 'completed';
    this.#change(task, { end: report.by === 'cancelled' ? 'cancelled' : end });
    this.ended.emit({ record: task.record, ...report });
  }

  /**
   * Waits until a client may request the state of a task, so that one that polls without pause does not load the upstream: as
   * often as that suggests, and at most {@link POLL_SPACING_MS} later. False if too many requests wait.
   */
  async pollTurn({ id, pollIntervalMs }: Pick<TaskRecord, 'id' | 'pollIntervalMs'>): Promise<boolean> {
    const task = this.tasks.get(id);
    if (!task) return true;
    const now = performance.now();
    const at = Math.max(task.nextPollAt, now);
    if (at - now > MAX_POLL_WAIT_MS) return false;
    task.nextPollAt = at + Math.min(pollIntervalMs ?? POLL_SPACING_MS, POLL_SPACING_MS);
    if (at > now) await delay(at - now, undefined, { ref: false });
    return true;
  }

  /** Stores a request of the upstream that the task needs input for. False if there are too many, or if the task has ended. */
  ask(record: CoreTask, question: TaskQuestion): boolean {
    const { questions, status } = this.latest(record) ?? { questions: [], status: 'completed' as const };
    if (isTerminal(status)) return false;
    if (questions.some(({ requestId }) => requestId === question.requestId)) return true;
    const all = [...questions, question];
    const characters = all.reduce((sum, { request }) => sum + request.length, 0);
    if (all.length > MAX_QUESTIONS || characters > MAX_QUESTION_CHARACTERS) return false;
    this.#setQuestions(record, all);
    return true;
  }

  /** Removes questions that were answered or canceled. */
  removeQuestions(record: CoreTask, test: (question: TaskQuestion) => boolean): void {
    const { questions = [] } = this.latest(record) ?? {};
    const open = questions.filter((question) => !test(question));
    if (open.length < questions.length) this.#setQuestions(record, open);
  }

  /** Resolves once the questions of a task are durable. */
  async stored({ id }: CoreTask): Promise<void> {
    await this.tasks.get(id)?.storing;
  }

  /** Records that the upstream has got input under these keys. */
  onAnswered({ id }: TaskRecord, keys: readonly string[]): void {
    const task = this.tasks.get(id);
    if (task?.record.kind !== 'extension') return;
    const openKeys = task.record.openKeys.filter((key) => !keys.includes(key));
    if (openKeys.length < task.record.openKeys.length) this.#change(task, { openKeys });
  }

  /** Brings the records up to date with other replicas, if there are any. */
  async refresh(): Promise<void> {
    await this.#store.refresh?.().catch(() => undefined);
  }

  /** Records that a client has canceled a task; resolves once that is durable. Rejects with `StoreError`. */
  async cancel({ id }: TaskRecord): Promise<void> {
    const task = this.tasks.get(id);
    if (!task) return;
    await this.#store.change(id, { isCanceled: true });
    const isEnd = isReported(task.record);
    this.set(task, { isCanceled: true });
    if (isEnd) this.ended.emit({ record: task.record, by: 'cancelled' });
    this.canceled.emit(task.record);
  }

  /** Removes a record. A failure to store that costs only room until it expires. */
  remove({ id }: Pick<TaskRecord, 'id'>): void {
    if (this.drop(id)) this.#store.remove(id).catch(() => undefined);
  }

  /** Removes a record whose task may be running: nobody can get its result any more. */
  discard(record: TaskRecord, by: TaskEnd = 'discarded'): void {
    // Of replicas that remove a record, the one that stored it reports that.
    const isOwn = this.tasks.get(record.id)?.isForeign === false;
    // While its session is open.
    if (record.kind !== 'call' && isActive(record)) this.orphaned.emit(record);
    this.remove(record);
    if (isOwn && isReported(record)) this.ended.emit({ record, by });
  }

  /** Removes the records for which this is true: some at once, the others soon. */
  discardWhere(test: (record: TaskRecord) => boolean, by?: TaskEnd): void {
    for (const { record } of this.tasks.values()) if (test(record)) this.#outdated.set(record.id, by);
    if (!this.#discardTimer) this.#discardNext();
  }

  #discardNext(): void {
    for (const [id, by] of this.#outdated.entries().take(DISCARDED_AT_ONCE)) {
      this.#outdated.delete(id);
      const record = this.get(id);
      if (record) this.discard(record, by);
    }
    const isOver = this.#outdated.size === 0;
    this.#discardTimer = isOver ? undefined : setTimeout(() => this.#discardNext(), DISCARD_PAUSE_MS).unref();
  }

  /** Removes the expired records, as {@link discardWhere} does. */
  removeExpired(): void {
    const now = this.#now();
    this.discardWhere(({ expires }) => expires <= now, 'expired');
  }

  /** Finishes pending writes. Sessions of tasks that will be lost are not kept open. Throws `StoreError`. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    clearTimeout(this.#discardTimer);
    if (!this.#store.isDurable) for (const task of this.tasks.values()) this.unpin(task);
    await this.#store.close();
  }

  protected override add(record: TaskRecord, session: UpstreamSession | undefined, isForeign: boolean): void {
    super.add(record, session, isForeign);
    this.#shares.set(record.id, record.holder, 1);
  }

  protected override drop(id: string): TaskRecord | undefined {
    const record = super.drop(id);
    this.#shares.delete(id);
    if (record) this.removed.emit(record);
    return record;
  }

  async #lookUp(id: string): Promise<TaskRecord | undefined> {
    // Another replica may just have created it.
    if (!this.get(id)) await this.refresh();
    return this.get(id);
  }

  #isVisibleTo(owner: TaskOwner, record: TaskRecord): boolean {
    return !isInternal(record) && isOwnedBy(record, owner) && record.expires > this.#now();
  }

  /** Displaces tasks of others, as they share the total, and of a user with too many the oldest one that has ended. */
  #makeRoom(holder: QuotaOwner): boolean {
    const own = this.ofUser(holder.name);
    if (own.length >= this.#limits.perUser) {
      const ended = own.find((record) => !isActive(record));
      if (!ended) return false;
      this.remove(ended);
    }
    return this.#shares.makeRoom(holder, 1, (id) => {
      const record = this.get(id);
      if (record) this.discard(record);
    });
  }

  #follow(id: string, record: TaskRecord | undefined): void {
    const task = this.tasks.get(id);
    if (!record) {
      this.drop(id);
    } else if (!task) {
      this.add(record, undefined, true);
    } else {
      const isNews = statusOf(task.record) !== statusOf(record) || questionKeys(task.record) !== questionKeys(record);
      this.set(task, record);
      if (isNews) task.changed.emit();
      if (record.isCanceled) this.canceled.emit(record);
    }
  }

  #setQuestions({ id }: CoreTask, questions: TaskQuestion[]): void {
    const task = this.tasks.get(id);
    if (!task) return;
    task.storing = this.#change(task, { questions });
    task.changed.emit();
  }

  /** Changes a record at once. A failure to store that costs a request to the upstream after the next start. */
  #change(task: KnownTask, change: TaskChange): Promise<void> {
    this.set(task, change);
    return this.#store.change(task.record.id, change).catch(() => undefined);
  }
}

/** Whether the states of a task are reported: until its end is. Of tasks that no client knows, the calls are. */
function isReported(record: TaskRecord): boolean {
  return !isInternal(record) && isOpen(record);
}

/** Returns what a modern upstream reports besides the state of a task. */
function detailsOf({ result, inputRequests }: JsonObject): Pick<TaskChange, 'isError' | 'openKeys'> {
  const openKeys: string[] = [];
  let characters = 0;
  for (const key of isJsonObject(inputRequests) ? Object.keys(inputRequests) : []) {
    characters += key.length;
    if (characters <= MAX_KEY_CHARACTERS) openKeys.push(key);
  }
  return { isError: isErrorResult(result), openKeys };
}

/** The part of a state that changes, as records have it. */
function reported(state: NewState) {
  const { status, lastUpdatedAt, pollIntervalMs } = state;
  const statusMessage = state.statusMessage && truncateCharacters(state.statusMessage, MAX_MESSAGE_CHARACTERS);
  return { status, statusMessage, lastUpdatedAt, ttlMs: boundedTtl(state), pollIntervalMs };
}

/** Returns a time to live within ours, in milliseconds. */
export function boundedTtl({ ttlMs }: Pick<TaskState, 'ttlMs'>): number {
  return Math.min(ttlMs ?? MAX_TTL_MS, MAX_TTL_MS);
}

/** The stored part of a legacy session. */
export function sessionRecord({ sessionId, protocolVersion }: UpstreamSession): CoreTask['session'] {
  return { ...(sessionId !== undefined && { id: sessionId }), protocolVersion };
}

function questionKeys(record: TaskRecord): string | undefined {
  return record.kind === 'core' ? record.questions.map(({ key }) => key).join() : undefined;
}

function expiryOf(created: number, state: NewState): number {
  return created + boundedTtl(state) + GRACE_MS;
}

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
import { type StoredPrincipal, toStored } from '../../../identity/principal.ts';
import type { ClientFacts } from '../../client-facts.ts';
import type { UpstreamSession } from '../upstream.ts';
import { type KnownTask, TaskIndex } from './task-index.ts';
import {
  clientEraOf,
  isOwnedBy,
  statusOf,
  type TaskChange,
  type TaskQuestion,
  type TaskRecord,
  type TaskStore,
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

/** Owner of a task. Ids are scoped to namespace and principal. */
export interface TaskOwner {
  readonly namespace: { readonly name: string } | undefined;
  readonly principal: Pick<StoredPrincipal, 'key'>;
}

/** Members of a new record that its creator knows. */
export type NewTask = Omit<
  TaskRecord,
  Exclude<keyof TaskChange, 'session'> | 'id' | 'upstreamId' | 'createdAt' | 'created'
> & {
  /** Longest life of the record in milliseconds, if that is shorter than the life of its task. */
  readonly maxLifeMs?: number;
};

/** Returns the members of a new record that the client, the called tool and the address of its executor determine. */
export function newTask(
  { namespace = '', principal, address: clientAddress }: ClientFacts,
  { entry, forward }: Partial<Pick<Target, 'entry' | 'forward'>>,
  address: string,
): Pick<NewTask, 'namespace' | 'principal' | 'holder' | 'tool' | 'address' | 'forward'> {
  const { key = '', discovered } = entry ?? {};
  const tool = { key, upstreamKey: discovered?.upstreamKey, copied: discovered?.copied };
  const holder = quotaOwner(namespace, principal, clientAddress);
  return { namespace, principal: toStored(principal), holder, tool, address, forward };
}

/** How a state of a task became known. */
export interface TaskReport {
  readonly by: TaskEnd;
  /** The message with it: its result or error, if the task has ended with one. */
  readonly content?: JsonObject | undefined;
}

/** A task whose end became known. */
export interface EndedTask {
  readonly record: TaskRecord;
  readonly report: TaskReport;
}

/** A task whose record was removed, and its upstream session if that is open in this process. */
export interface OrphanedTask {
  readonly record: TaskRecord;
  readonly session: UpstreamSession | undefined;
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
  readonly #timer: NodeJS.Timeout;
  /** Ids of records that are to be removed, and why. */
  readonly #outdated = new Map<string, TaskEnd | undefined>();
  #discardTimer: NodeJS.Timeout | undefined = undefined;
  /** A task was created here. */
  readonly created = new Emitter<TaskRecord>();
  /** A task has another status. */
  readonly changed = new Emitter<TaskRecord>();
  /** The end of a task became known here, once for each. */
  readonly ended = new Emitter<EndedTask>();
  /** A record was removed although its task may be running: nobody can get its result any more. */
  readonly orphaned = new Emitter<OrphanedTask>();
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
    this.#timer = setInterval(() => this.removeExpired(), SWEEP_MS).unref();
    store.changed?.subscribe(({ id, record }) => this.#follow(id, record));
  }

  /** Loads the stored records. Throws `StoreError`. */
  async load(): Promise<void> {
    const isShared = this.#store.refresh !== undefined;
    for (const record of await this.#store.load()) this.add(record, undefined, isShared);
    this.removeExpired();
  }

  /**
   * Stores a new task of an upstream; resolves once it is durable. `session` stays open until the task has ended. Undefined if
   * its holder may have no more tasks; rejects with `StoreError`.
   */
  async create(task: NewTask, state: TaskState, session?: UpstreamSession): Promise<TaskRecord | undefined> {
    const now = this.#now();
    const { taskId: upstreamId, ...rest } = state;
    const { maxLifeMs = Number.POSITIVE_INFINITY, ...known } = task;
    const record: TaskRecord = {
      ...known,
      ...rest,
      statusMessage: storedMessage(state),
      // Never begins with "-", as options on command lines do.
      id: randomBytes(16).toString('hex'),
      upstreamId,
      created: now,
      states: [{ status: state.status, at: now }],
      expires: Math.min(expiryOf(now, state.ttlMs), now + maxLifeMs),
    };
    if (!this.#makeRoom(record.holder)) return undefined;
    this.add(record, session, false);
    try {
      await this.#store.put(record);
    } catch (error) {
      this.drop(record.id);
      throw error;
    }
    if (!record.isInternal) this.created.emit(record);
    return record;
  }

  /** The process that has the call of a task; undefined for tasks of upstreams, and for unknown ones. */
  async locate(id: string): Promise<string | undefined> {
    return (await this.#lookUp(id))?.replica;
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
    return own.filter((record) => this.#isVisibleTo(owner, record) && clientEraOf(record) === 'legacy');
  }

  /** Returns the task whose result a call of a legacy client waits for; `idText` is the id of the call. */
  ofCall(clientSession: string, idText: string): TaskRecord | undefined {
    const now = this.#now();
    return this.ofSession(clientSession).find(({ callId, expires }) => callId === idText && expires > now);
  }

  /** Sets the session that the requests of a task are sent in from now on. */
  setSession({ id }: TaskRecord, session: UpstreamSession): void {
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
    const isChanged = record.status !== state.status;
    if (isChanged && isTerminal(record.status)) return false;
    const isOver = isTerminal(state.status);
    if (isOver) this.unpin(task);
    const { taskId: _, createdAt: __, ...rest } = state;
    const details = record.era === 'modern' && report.content ? detailsOf(report.content) : {};
    const now = this.#now();
    const statusMessage = storedMessage(state);
    const hasEnded = isOver && isUnreported(record);
    const change: TaskChange = {
      ...rest,
      ...details,
      statusMessage,
      expires: expiryOf(record.created, state.ttlMs),
      ...(isOver && record.questions && { questions: [] }),
      ...(isChanged && { states: [...(record.states ?? []), { status: state.status, at: now }].slice(-MAX_STATES) }),
      ...(hasEnded && { endedAt: now }),
    };
    const { isError = false, openKeys = record.openKeys } = details;
    // Messages and times are not worth a write.
    const isStored =
      !isChanged &&
      !hasEnded &&
      record.ttlMs === state.ttlMs &&
      isError === (record.isError ?? false) &&
      isDeepStrictEqual(openKeys ?? [], record.openKeys ?? []);
    if (isStored) this.set(task, change);
    else this.#change(task, change);
    // Those who poll know a message that another poll has found at their next one.
    const hasNewMessage = report.by !== 'polled' && record.statusMessage !== statusMessage;
    if (isChanged || hasNewMessage) task.changed.emit();
    if (hasEnded) this.ended.emit({ record: task.record, report });
    else if (isChanged && isUnreported(record)) this.changed.emit(task.record);
    return true;
  }

  /** The end of a task is known: it was canceled, or has the result in the report. */
  end({ id }: TaskRecord, report: TaskReport): void {
    const task = this.tasks.get(id);
    if (!task || !isUnreported(task.record)) return;
    this.#change(task, { endedAt: this.#now() });
    this.ended.emit({ record: task.record, report });
  }

  /**
   * Waits until a client may request the state of a task, so that one that polls without pause does not load the upstream: as
   * often as that suggests, and at most {@link POLL_SPACING_MS} later. False if too many requests wait.
   */
  async pollTurn({
    id,
    pollIntervalMs = POLL_SPACING_MS,
  }: Pick<TaskRecord, 'id' | 'pollIntervalMs'>): Promise<boolean> {
    const task = this.tasks.get(id);
    if (!task) return true;
    const now = performance.now();
    const at = Math.max(task.nextPollAt, now);
    if (at - now > MAX_POLL_WAIT_MS) return false;
    task.nextPollAt = at + Math.min(pollIntervalMs, POLL_SPACING_MS);
    if (at > now) await delay(at - now, undefined, { ref: false });
    return true;
  }

  /**
   * Stores a request of the upstream that the task needs input for. False if there are too many, or if the task has ended.
   */
  ask({ id }: TaskRecord, question: TaskQuestion): boolean {
    const task = this.tasks.get(id);
    if (!task || isTerminal(task.record.status)) return false;
    const open = task.record.questions ?? [];
    if (open.some(({ requestId }) => requestId === question.requestId)) return true;
    const characters = [...open, question].reduce((sum, { params }) => sum + (params?.length ?? 0), 0);
    if (open.length >= MAX_QUESTIONS || characters > MAX_QUESTION_CHARACTERS) return false;
    this.#setQuestions(task, [...open, question]);
    return true;
  }

  /** Removes questions that were answered or canceled. */
  removeQuestions({ id }: TaskRecord, test: (question: TaskQuestion) => boolean): void {
    const task = this.tasks.get(id);
    const { questions = [] } = task?.record ?? {};
    const open = questions.filter((question) => !test(question));
    if (task && open.length < questions.length) this.#setQuestions(task, open);
  }

  /** Resolves once the questions of a task are durable. */
  async stored({ id }: TaskRecord): Promise<void> {
    await this.tasks.get(id)?.storing;
  }

  /** Records that the upstream has got input under these keys. */
  onAnswered({ id }: TaskRecord, keys: readonly string[]): void {
    const task = this.tasks.get(id);
    const { openKeys = [] } = task?.record ?? {};
    const open = openKeys.filter((key) => !keys.includes(key));
    if (task && open.length < openKeys.length) this.#change(task, { openKeys: open });
  }

  /** Brings the records up to date with other replicas, if there are any. */
  async refresh(): Promise<void> {
    await this.#store.refresh?.().catch(() => undefined);
  }

  /** Records that a client has canceled a task; resolves once that is durable. Rejects with `StoreError`. */
  async cancel({ id }: TaskRecord): Promise<void> {
    const task = this.tasks.get(id);
    if (!task) return;
    const { endedAt = this.#now() } = task.record;
    await this.#store.change(id, { isCanceled: true, endedAt });
    const hasEnded = isUnreported(task.record);
    this.set(task, { isCanceled: true, endedAt });
    this.unpin(task);
    if (hasEnded) this.ended.emit({ record: task.record, report: { by: 'cancelled' } });
    this.canceled.emit(task.record);
  }

  /** Removes a record. A failure to store that costs only room until it expires. */
  remove({ id }: Pick<TaskRecord, 'id'>): void {
    if (this.drop(id)) this.#store.remove(id).catch(() => undefined);
  }

  /** Removes a record whose task may be running: nobody can get its result any more. */
  discard(record: TaskRecord, by: TaskEnd = 'discarded'): void {
    // Of replicas that remove a record, the one that stored it reports that.
    const { session, isForeign } = this.tasks.get(record.id) ?? {};
    this.remove(record);
    if (isForeign === false && isUnreported(record)) this.ended.emit({ record, report: { by } });
    if (!isTerminal(record.status) && !record.isCanceled) this.orphaned.emit({ record, session });
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

  #isVisibleTo({ namespace, principal }: TaskOwner, record: TaskRecord): boolean {
    return !record.isInternal && isOwnedBy(record, namespace?.name, principal) && record.expires > this.#now();
  }

  /** Displaces tasks of others, as they share the total, and of a user with too many the oldest one that has ended. */
  #makeRoom(holder: QuotaOwner): boolean {
    const own = this.ofUser(holder.name);
    if (own.length >= this.#limits.perUser) {
      const ended = own.find(({ status, isCanceled }) => isTerminal(status) || isCanceled);
      if (!ended) return false;
      this.remove(ended);
    }
    return this.#shares.makeRoom(holder, 1, (id) => {
      const record = this.get(id);
      if (record) this.discard(record);
    });
  }

  /** Takes over what another replica has stored. */
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
      if (isTerminal(record.status) || record.isCanceled) this.unpin(task);
      if (record.isCanceled) this.canceled.emit(record);
    }
  }

  #setQuestions(task: KnownTask, questions: TaskQuestion[]): void {
    this.set(task, { questions });
    task.storing = this.#store.change(task.record.id, { questions }).catch(() => undefined);
    task.changed.emit();
  }

  /** Changes a record at once. A failure to store that costs a request to the upstream after the next start. */
  #change(task: KnownTask, change: TaskChange): void {
    this.set(task, change);
    this.#store.change(task.record.id, change).catch(() => undefined);
  }
}

/** True until the end of a task is reported. Tasks that no client knows are not reported: their calls are. */
function isUnreported({ isInternal, endedAt }: TaskRecord): boolean {
  return !isInternal && endedAt === undefined;
}

/** Returns what a modern upstream reports besides the state of a task. */
function detailsOf({ result, inputRequests }: JsonObject): Pick<TaskChange, 'isError' | 'openKeys'> {
  const openKeys: string[] = [];
  let characters = 0;
  for (const key of isJsonObject(inputRequests) ? Object.keys(inputRequests) : []) {
    characters += key.length;
    if (characters <= MAX_KEY_CHARACTERS) openKeys.push(key);
  }
  return { isError: isJsonObject(result) && result.isError === true, openKeys };
}

function storedMessage({ statusMessage }: TaskState): string | undefined {
  return statusMessage && truncateCharacters(statusMessage, MAX_MESSAGE_CHARACTERS);
}

/** The state of a task under our id, with a time to live within ours. */
export function boundedState(state: TaskState, id: string): TaskState {
  return { ...state, taskId: id, ttlMs: Math.min(state.ttlMs ?? MAX_TTL_MS, MAX_TTL_MS) };
}

/** The stored part of an upstream session; undefined in the modern era. */
export function sessionRecord({ era, sessionId, protocolVersion }: UpstreamSession): TaskRecord['session'] {
  return era === 'modern' ? undefined : { ...(sessionId !== undefined && { id: sessionId }), protocolVersion };
}

/** Keys of the open questions of a task. */
function questionKeys({ questions = [] }: TaskRecord): string {
  return questions.map(({ key }) => key).join();
}

function expiryOf(created: number, ttlMs: number | null): number {
  return created + Math.min(ttlMs ?? MAX_TTL_MS, MAX_TTL_MS) + GRACE_MS;
}

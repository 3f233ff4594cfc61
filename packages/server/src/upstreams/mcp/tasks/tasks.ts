import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { TaskEnd } from '@sluice/contract';
import { Emitter } from '@sluice/protocol/emitter';
import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { isTerminal, type TaskState } from '@sluice/protocol/mcp/tasks';
import { truncateCharacters } from '@sluice/protocol/text';
import { type QuotaOwner, quotaOwner, Shares } from '../../../http/shares.ts';
import type { StoredPrincipal } from '../../../identity/principal.ts';
import type { UpstreamSession } from '../upstream.ts';
import { clientEraOf, isOpen, statusOf, type TaskChange, type TaskQuestion, type TaskRecord } from './task-record.ts';
import type { TaskStore } from './task-store.ts';

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
export type NewTask = Pick<
  TaskRecord,
  | 'namespace'
  | 'principal'
  | 'holder'
  | 'clientSession'
  | 'forward'
  | 'address'
  | 'era'
  | 'clientEra'
  | 'tool'
  | 'progress'
  | 'session'
  | 'isInternal'
  | 'replica'
  | 'eventId'
  | 'callId'
  | 'call'
> & {
  /** Longest life of the record in milliseconds, if that is shorter than the life of its task. */
  readonly maxLifeMs?: number;
};

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

interface Entry {
  record: TaskRecord;
  /** The upstream session that the task keeps open; undefined in the modern era, once it has ended, and after a restart. */
  pinned: UpstreamSession | undefined;
  /** The upstream session that its requests are sent in. */
  session: UpstreamSession | undefined;
  /** Stored by another replica, which reports if the task expires. */
  readonly isForeign: boolean;
  /** Another state is known. */
  readonly changed: Emitter;
  /** When clients may request its state again: milliseconds of `performance.now()`. */
  nextPollAt: number;
  /** Resolves once its questions are durable. */
  storing: Promise<void> | undefined;
}

/**
 * The tasks of upstreams that clients know, under ids of ours: an upstream sees one client for all users, and could list or guess
 * the ids of others. Their number is limited: users share the total, and each has a limit of its own.
 */
export class Tasks {
  readonly #store: TaskStore;
  readonly #limits: TaskLimits;
  readonly #now: () => number;
  readonly #entries = new Map<string, Entry>();
  readonly #shares: Shares<string>;
  /** Ids by user, and by session of the client, oldest first. */
  readonly #byUser = new Map<string, Set<string>>();
  readonly #byClientSession = new Map<string, Set<string>>();
  /** Ids by upstream, its session and its own id of the task. */
  readonly #byUpstreamId = new Map<string, string>();
  readonly #byProgress = new Map<string, string>();
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
    for (const record of await this.#store.load()) this.#add(record, undefined, isShared);
    this.removeExpired();
  }

  /** Number of records. */
  get size(): number {
    return this.#entries.size;
  }

  /** All tasks, the oldest first. */
  all(): TaskRecord[] {
    return Array.from(this.#entries.values(), ({ record }) => record).sort((a, b) => a.created - b.created);
  }

  /** Number of tasks whose end is not known, without those of clients that do not know them. */
  get openCount(): number {
    return this.#entries.values().reduce((sum, { record }) => sum + (isOpen(record) && !record.isInternal ? 1 : 0), 0);
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
      statusMessage: keptMessage(state),
      // Never begins with "-", as options on command lines do.
      id: randomBytes(16).toString('hex'),
      upstreamId,
      created: now,
      states: [{ status: state.status, at: now }],
      expires: Math.min(expiryOf(now, state.ttlMs), now + maxLifeMs),
    };
    if (!this.#makeRoom(record.holder)) return undefined;
    this.#add(record, session, false);
    try {
      await this.#store.put(record);
    } catch (error) {
      this.#drop(record.id);
      throw error;
    }
    if (!record.isInternal) this.created.emit(record);
    return record;
  }

  /** The process that has the call of a task; undefined for tasks of upstreams, and for unknown ones. */
  async locate(id: string): Promise<string | undefined> {
    // Another replica may just have created it.
    if (!this.#entries.has(id)) await this.refresh();
    return this.#entries.get(id)?.record.replica;
  }

  /** Returns the task with this id of ours; undefined if there is none of this owner. */
  async find(id: string, { namespace, principal }: TaskOwner): Promise<TaskRecord | undefined> {
    // Another replica may just have created it.
    if (!this.#entries.has(id)) await this.refresh();
    const record = this.#entries.get(id)?.record;
    if (!record || record.isInternal || record.namespace !== namespace?.name || record.principal.key !== principal.key)
      return undefined;
    return record.expires > this.#now() ? record : undefined;
  }

  /** Returns the task with this id of ours, whoever's it is. */
  get(id: string): TaskRecord | undefined {
    return this.#entries.get(id)?.record;
  }

  /** Returns the task with this progress token at an upstream, in a session there. */
  findProgress(address: string, session: string | undefined, token: string): TaskRecord | undefined {
    const id = this.#byProgress.get(upstreamKey(address, session, token));
    return id === undefined ? undefined : this.get(id);
  }

  /** Returns the task with this id at an upstream, in a session there. */
  findUpstream(address: string, session: string | undefined, upstreamId: string): TaskRecord | undefined {
    const id = this.#byUpstreamId.get(upstreamKey(address, session, upstreamId));
    return id === undefined ? undefined : this.#entries.get(id)?.record;
  }

  /**
   * The tasks of an owner that legacy clients have created, oldest first. An anonymous client is known by its session
   * only, and gets the tasks that were created there.
   */
  list({ namespace, principal }: TaskOwner, clientSession: string | undefined): TaskRecord[] {
    const now = this.#now();
    const ids =
      principal.key === ''
        ? this.#byClientSession.get(clientSession ?? '')
        : this.#byUser.get(quotaOwner('', principal, undefined).name);
    const found: TaskRecord[] = [];
    for (const id of ids ?? []) {
      const record = this.#entries.get(id)?.record;
      if (
        !record ||
        record.isInternal ||
        record.namespace !== namespace?.name ||
        record.principal.key !== principal.key
      )
        continue;
      if (record.expires > now && clientEraOf(record) === 'legacy') found.push(record);
    }
    return found;
  }

  /** Returns the tasks that were created in a session of a client. */
  ofSession(clientSession: string): TaskRecord[] {
    return [...(this.#byClientSession.get(clientSession) ?? [])].flatMap((id) => this.get(id) ?? []);
  }

  /** Returns the task whose result a call of a legacy client waits for; `idText` is the id of the call. */
  ofCall(clientSession: string, idText: string): TaskRecord | undefined {
    const now = this.#now();
    return this.ofSession(clientSession).find(({ callId, expires }) => callId === idText && expires > now);
  }

  /** Returns the upstream session that the requests of a task are sent in, if it is open in this process. */
  sessionOf({ id }: TaskRecord): UpstreamSession | undefined {
    return this.#entries.get(id)?.session;
  }

  /** Sets the session that the requests of a task are sent in from now on. */
  setSession({ id }: TaskRecord, session: UpstreamSession): void {
    const entry = this.#entries.get(id);
    if (!entry || entry.session === session) return;
    this.#unpin(entry);
    entry.session = session;
    if (!isTerminal(entry.record.status)) this.#pin(entry, session);
    this.#change(entry, { session: sessionRecord(session) });
  }

  /**
   * Records the state that an upstream reports. False if it contradicts an earlier one: a status that is terminal never
   * changes.
   */
  observe({ id }: TaskRecord, state: TaskState, report: TaskReport = { by: 'polled' }): boolean {
    const entry = this.#entries.get(id);
    if (!entry) return true;
    const { record } = entry;
    if (isTerminal(record.status) && state.status !== record.status) return false;
    const isTerminalState = isTerminal(state.status);
    if (isTerminalState) this.#unpin(entry);
    const { taskId: _, createdAt: __, ...rest } = state;
    const details = record.era === 'modern' && report.content ? detailsOf(report.content) : {};
    const now = this.#now();
    const isChanged = record.status !== state.status;
    const statusMessage = keptMessage(state);
    const hasEnded = isTerminalState && isUnreported(record);
    const change: TaskChange = {
      ...rest,
      ...details,
      statusMessage,
      expires: expiryOf(record.created, state.ttlMs),
      ...(isTerminalState && record.questions && { questions: [] }),
      ...(isChanged && { states: [...(record.states ?? []), { status: state.status, at: now }].slice(-MAX_STATES) }),
      ...(hasEnded && { endedAt: now }),
    };
    const isStored =
      !isChanged &&
      !hasEnded &&
      record.ttlMs === state.ttlMs &&
      (details.isError ?? false) === (record.isError ?? false) &&
      areEqual(details.openKeys ?? record.openKeys, record.openKeys);
    // Messages and times are not worth a write.
    if (isStored) this.#set(entry, change);
    else this.#change(entry, change);
    // Those who poll know a message that another poll has found at their next one.
    const hasNewMessage = report.by !== 'polled' && record.statusMessage !== statusMessage;
    if (isChanged || hasNewMessage) entry.changed.emit();
    if (hasEnded) this.ended.emit({ record: entry.record, report });
    else if (isChanged && isUnreported(record)) this.changed.emit(entry.record);
    return true;
  }

  /** The end of a task is known: it was canceled, or has the result in the report. */
  end({ id }: TaskRecord, report: TaskReport): void {
    const entry = this.#entries.get(id);
    if (!entry || !isUnreported(entry.record)) return;
    this.#change(entry, { endedAt: this.#now() });
    this.ended.emit({ record: entry.record, report });
  }

  /**
   * Waits until a client may request the state of a task, so that one that polls without pause does not load the upstream: as
   * often as that suggests, and at most {@link POLL_SPACING_MS} later. False if too many requests wait.
   */
  async pollTurn({
    id,
    pollIntervalMs = POLL_SPACING_MS,
  }: Pick<TaskRecord, 'id' | 'pollIntervalMs'>): Promise<boolean> {
    const entry = this.#entries.get(id);
    if (!entry) return true;
    const now = performance.now();
    const at = Math.max(entry.nextPollAt, now);
    if (at - now > MAX_POLL_WAIT_MS) return false;
    entry.nextPollAt = at + Math.min(pollIntervalMs, POLL_SPACING_MS);
    if (at > now) await delay(at - now, undefined, { ref: false });
    return true;
  }

  /**
   * Calls back whenever another status of a task is known, its upstream reports another message, or its questions change. Returns
   * the function that ends that.
   */
  onChange({ id }: TaskRecord, listener: () => void): () => void {
    return this.#entries.get(id)?.changed.subscribe(listener) ?? (() => undefined);
  }

  /**
   * Stores a request of the upstream that the task needs input for. False if there are too many, or if the task has ended.
   */
  ask({ id }: TaskRecord, question: TaskQuestion): boolean {
    const entry = this.#entries.get(id);
    if (!entry || isTerminal(entry.record.status)) return false;
    const open = entry.record.questions ?? [];
    if (open.some(({ requestId }) => requestId === question.requestId)) return true;
    const characters = [...open, question].reduce((sum, { params }) => sum + (params?.length ?? 0), 0);
    if (open.length >= MAX_QUESTIONS || characters > MAX_QUESTION_CHARACTERS) return false;
    this.#changeQuestions(entry, (questions) => [...questions, question]);
    return true;
  }

  /** Records that the upstream has got input under these keys. */
  onAnswered({ id }: TaskRecord, keys: readonly string[]): void {
    const entry = this.#entries.get(id);
    const { openKeys = [] } = entry?.record ?? {};
    const open = openKeys.filter((key) => !keys.includes(key));
    if (entry && open.length < openKeys.length) this.#change(entry, { openKeys: open });
  }

  /** Resolves once the questions of a task are durable. */
  async stored({ id }: TaskRecord): Promise<void> {
    await this.#entries.get(id)?.storing;
  }

  /** Removes questions that were answered or canceled. */
  removeQuestions({ id }: TaskRecord, test: (question: TaskQuestion) => boolean): void {
    const entry = this.#entries.get(id);
    if (entry?.record.questions?.some(test)) {
      this.#changeQuestions(entry, (questions) => questions.filter((question) => !test(question)));
    }
  }

  /** Brings the records up to date with other replicas, if there are any. */
  async refresh(): Promise<void> {
    await this.#store.refresh?.().catch(() => undefined);
  }

  /** Records that a client has canceled a task; resolves once that is durable. Rejects with `StoreError`. */
  async cancel({ id }: TaskRecord): Promise<void> {
    const entry = this.#entries.get(id);
    if (!entry) return;
    const { endedAt = this.#now() } = entry.record;
    await this.#store.change(id, { isCanceled: true, endedAt });
    const hasEnded = isUnreported(entry.record);
    this.#set(entry, { isCanceled: true, endedAt });
    this.#unpin(entry);
    if (hasEnded) this.ended.emit({ record: entry.record, report: { by: 'cancelled' } });
    this.canceled.emit(entry.record);
  }

  /** Removes a record. A failure to store that costs only room until it expires. */
  remove({ id }: Pick<TaskRecord, 'id'>): void {
    if (!this.#drop(id)) return;
    this.#store.remove(id).catch(() => undefined);
  }

  /** Removes a record whose task may be running: nobody can get its result any more. */
  discard(record: TaskRecord, by: TaskEnd = 'discarded'): void {
    const session = this.sessionOf(record);
    // Of replicas that remove a record, the one that stored it reports that.
    const isForeign = this.#entries.get(record.id)?.isForeign;
    this.remove(record);
    if (isForeign === false && isUnreported(record)) this.ended.emit({ record, report: { by } });
    if (!isTerminal(record.status) && !record.isCanceled) this.orphaned.emit({ record, session });
  }

  /** Removes the records for which this is true: some at once, the others soon. */
  discardWhere(test: (record: TaskRecord) => boolean, by?: TaskEnd): void {
    for (const { record } of this.#entries.values()) if (test(record)) this.#outdated.set(record.id, by);
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
    if (!this.#store.isDurable) for (const entry of this.#entries.values()) this.#unpin(entry);
    await this.#store.close();
  }

  /** Displaces tasks of others, as they share the total, and of a user with too many the oldest one that has ended. */
  #makeRoom(holder: QuotaOwner): boolean {
    const own = this.#byUser.get(holder.name);
    if (own && own.size >= this.#limits.perUser) {
      const ended = own.values().find((id) => {
        const record = this.#entries.get(id)?.record;
        return record !== undefined && (isTerminal(record.status) || record.isCanceled === true);
      });
      if (ended === undefined) return false;
      this.remove({ id: ended });
    }
    return this.#shares.makeRoom(holder, 1, (id) => {
      const record = this.#entries.get(id)?.record;
      if (record) this.discard(record);
    });
  }

  #add(record: TaskRecord, session: UpstreamSession | undefined, isForeign: boolean): void {
    const { id, holder } = record;
    const entry: Entry = {
      record,
      session,
      pinned: undefined,
      isForeign,
      changed: new Emitter(),
      nextPollAt: 0,
      storing: undefined,
    };
    this.#entries.set(id, entry);
    this.#shares.set(id, holder, 1);
    addTo(this.#byUser, holder.name, id);
    if (record.clientSession !== undefined) addTo(this.#byClientSession, record.clientSession, id);
    this.#byUpstreamId.set(keyOf(record), id);
    this.#indexProgress(record);
    if (session && !isTerminal(record.status)) this.#pin(entry, session);
  }

  /** Takes over what another replica has stored. */
  #follow(id: string, record: TaskRecord | undefined): void {
    const entry = this.#entries.get(id);
    if (!record) {
      this.#drop(id);
    } else if (!entry) {
      this.#add(record, undefined, true);
    } else {
      const isNews = statusOf(entry.record) !== statusOf(record) || keysOf(entry.record) !== keysOf(record);
      this.#set(entry, record);
      if (isNews) entry.changed.emit();
      if (isTerminal(record.status) || record.isCanceled) this.#unpin(entry);
      if (record.isCanceled) this.canceled.emit(record);
    }
  }

  #drop(id: string): boolean {
    const entry = this.#entries.get(id);
    if (!entry) return false;
    const { record } = entry;
    this.#unpin(entry);
    this.#entries.delete(id);
    this.#shares.delete(id);
    deleteFrom(this.#byUser, record.holder.name, id);
    deleteFrom(this.#byClientSession, record.clientSession, id);
    this.#dropProgress(record);
    if (this.#byUpstreamId.get(keyOf(record)) === id) this.#byUpstreamId.delete(keyOf(record));
    this.removed.emit(record);
    return true;
  }

  #changeQuestions(entry: Entry, change: (questions: readonly TaskQuestion[]) => TaskQuestion[]): void {
    const questions = change(entry.record.questions ?? []);
    this.#set(entry, { questions });
    entry.storing = this.#store.change(entry.record.id, { questions }).catch(() => undefined);
    entry.changed.emit();
  }

  #pin(entry: Entry, session: UpstreamSession): void {
    if (session.era === 'modern') return;
    session.tasks++;
    entry.pinned = session;
  }

  #unpin(entry: Entry): void {
    const session = entry.pinned;
    if (!session) return;
    entry.pinned = undefined;
    session.tasks--;
    if (session.inFlight === 0 && session.tasks === 0) session.onIdle?.();
  }

  #set(entry: Entry, change: TaskChange): void {
    const before = entry.record;
    entry.record = { ...before, ...change };
    if (keyOf(before) === keyOf(entry.record)) return;
    // The task is known in another session now.
    this.#byUpstreamId.delete(keyOf(before));
    this.#byUpstreamId.set(keyOf(entry.record), entry.record.id);
    this.#dropProgress(before);
    this.#indexProgress(entry.record);
  }

  #indexProgress(record: TaskRecord): void {
    const key = progressKeyOf(record);
    if (key !== undefined) this.#byProgress.set(key, record.id);
  }

  #dropProgress(record: TaskRecord): void {
    const key = progressKeyOf(record);
    if (key !== undefined && this.#byProgress.get(key) === record.id) this.#byProgress.delete(key);
  }

  /** Changes a record at once. A failure to store that costs a request to the upstream after the next start. */
  #change(entry: Entry, change: TaskChange): void {
    this.#set(entry, change);
    this.#store.change(entry.record.id, change).catch(() => undefined);
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

function keptMessage({ statusMessage }: TaskState): string | undefined {
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
function keysOf({ questions = [] }: TaskRecord): string {
  return questions.map(({ key }) => key).join();
}

function areEqual(some: readonly string[] = [], others: readonly string[] = []): boolean {
  return some.length === others.length && some.every((key, at) => key === others[at]);
}

function addTo(index: Map<string, Set<string>>, key: string, id: string): void {
  index.set(key, (index.get(key) ?? new Set()).add(id));
}

function deleteFrom(index: Map<string, Set<string>>, key: string | undefined, id: string): void {
  const ids = key === undefined ? undefined : index.get(key);
  if (key === undefined || !ids?.delete(id) || ids.size > 0) return;
  index.delete(key);
}

function expiryOf(created: number, ttlMs: number | null): number {
  return created + Math.min(ttlMs ?? MAX_TTL_MS, MAX_TTL_MS) + GRACE_MS;
}

function keyOf({ address, session, upstreamId }: TaskRecord): string {
  return upstreamKey(address, session?.id, upstreamId);
}

function progressKeyOf({ address, session, progress }: TaskRecord): string | undefined {
  return progress && upstreamKey(address, session?.id, progress.upstream);
}

function upstreamKey(address: string, session: string | undefined, upstreamId: string): string {
  return JSON.stringify([address, session, upstreamId]);
}

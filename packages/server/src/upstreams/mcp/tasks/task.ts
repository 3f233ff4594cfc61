import { setTimeout as delay } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { TaskEnd } from '@sluice/contract';
import { Emitter } from '@sluice/protocol/emitter';
import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { isTerminal, type TaskState } from '@sluice/protocol/mcp/tasks';
import { truncateCharacters } from '@sluice/protocol/text';
import { isErrorResult } from '../../../telemetry/tool-calls/event.ts';
import type { UpstreamSession } from '../upstream-sessions.ts';
import {
  type InputRequestRecord,
  isActive,
  isInternal,
  isOpen,
  type NewState,
  statusOf,
  type TaskChange,
  type TaskRecord,
  type UpstreamRecord,
} from './task-record.ts';

/** Longest time to live of a task, in milliseconds. */
export const MAX_TTL_MS = 24 * 3600 * 1000;
/** Time for which a record outlives its task: until then its upstream responds that the task has expired. */
const GRACE_MS = 60_000;
/** States of a task that are stored. */
const MAX_STATES = 20;
/** Longest time between two requests for the state of a task, and longest time that one waits, in milliseconds. */
const POLL_SPACING_MS = 100;
const MAX_POLL_WAIT_MS = 2_000;
/** Limits of the requests of one task for input: their number, and their size in characters. */
const MAX_INPUT_REQUESTS = 32;
const MAX_INPUT_CHARACTERS = 256 * 1024;
/** Longest status message that a record keeps, and characters of the keys of input, of which further ones are ignored. */
const MAX_MESSAGE_CHARACTERS = 1_000;
const MAX_KEY_CHARACTERS = 64 * 1024;

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

/** The table that a task is in, which reports its changes. */
export interface TaskTable {
  readonly now: () => number;
  /** A task has another status. */
  readonly changed: Emitter<TaskRecord>;
  /** The end of a task became known here, once for each. */
  readonly ended: Emitter<EndedTask>;
  /** A task was canceled, here or by another replica. */
  readonly canceled: Emitter<TaskRecord>;
  /** Changes members of a record, unless it is not stored any more. Rejects with `StoreError`. */
  store(id: string, change: TaskChange): Promise<void>;
  /** The requests of a task are sent in another session than before. */
  onMoved(task: Task, before: TaskRecord): void;
  /** Removes a task. A failure to store that costs only room until it expires. */
  remove(task: Task): void;
}

/** A task as this process knows it: its record, whose changes are stored, and what is not stored. */
export class Task<Content extends TaskRecord = TaskRecord> {
  /** As of now: each change replaces it. */
  record: Content;
  /** Stored by another replica, which reports if the task expires. */
  readonly isForeign: boolean;
  /** Its client has no such task any more. */
  isRemoved = false;
  /** The upstream session that the requests of a core task are sent in, if that is open here. */
  session: UpstreamSession | undefined = undefined;
  /** Another status is known, the upstream reports another message, or its requests for input have changed. */
  readonly changed = new Emitter();
  readonly #table: TaskTable;
  /** The session that it keeps open. */
  #pinned: UpstreamSession | undefined = undefined;
  /** When clients may request its state again: milliseconds of `performance.now()`. */
  #nextPollAt = 0;
  #storing: Promise<void> | undefined = undefined;

  constructor(table: TaskTable, record: Content, isForeign: boolean) {
    this.#table = table;
    this.record = record;
    this.isForeign = isForeign;
  }

  get id(): string {
    return this.record.id;
  }

  /** Sets the session of a core task, which stays open until that has ended. */
  pin(session: UpstreamSession): void {
    this.unpin();
    this.session = session;
    if (!isActive(this.record)) return;
    session.use.tasks++;
    this.#pinned = session;
  }

  unpin(): void {
    const session = this.#pinned;
    this.#pinned = undefined;
    session?.use.endTask();
  }

  /** Sets the session that the requests of a core task are sent in from now on. */
  setSession(session: UpstreamSession): void {
    if (this.isRemoved || this.session === session) return;
    this.pin(session);
    void this.#change({ session: sessionRecord(session) });
  }

  /**
   * Records the state that an upstream reports. False if it contradicts an earlier one: a status that is terminal never
   * changes.
   */
  observe(state: TaskState, report: TaskReport = { by: 'polled' }): boolean {
    if (this.isRemoved) return true;
    const record: TaskRecord = this.record;
    const { changed, ended, now } = this.#table;
    const { status } = state;
    const isChanged = record.status !== status;
    if (isChanged && isTerminal(record.status)) return false;
    const change: TaskChange = {
      ...reportedState(state),
      ...(record.kind === 'extension' && report.content && detailsOf(report.content)),
      ...(record.kind === 'core' && isTerminal(status) && { inputRequests: [] }),
      ...(isChanged && { states: [...record.states, { status, at: now() }].slice(-MAX_STATES) }),
      expires: expiryOf(record.created, state),
    };
    // Messages and times are not worth a write.
    const { statusMessage, lastUpdatedAt, pollIntervalMs } = record;
    const known = { statusMessage, lastUpdatedAt, pollIntervalMs };
    if (isDeepStrictEqual({ ...record, ...change, ...known }, { ...record, ...known })) this.#set(change);
    else void this.#change(change);
    // Those who poll know a message that another poll has found at their next one.
    const hasNewMessage = report.by !== 'polled' && statusMessage !== change.statusMessage;
    if (isChanged || hasNewMessage) this.changed.emit();
    if (!isReported(record)) return true;
    if (isTerminal(status)) ended.emit({ record: this.record, ...report });
    else if (isChanged) changed.emit(this.record);
    return true;
  }

  /** The end of the task is known: it was canceled, or has the result in the report. */
  end(report: TaskReport): void {
    if (this.isRemoved || !isReported(this.record)) return;
    const end = isErrorResult(report.content?.result) ? 'failed' : 'completed';
    void this.#change({ end: report.by === 'cancelled' ? 'cancelled' : end });
    this.#table.ended.emit({ record: this.record, ...report });
  }

  /** Records that a client has canceled the task; resolves once that is durable. Rejects with `StoreError`. */
  async cancel(): Promise<void> {
    if (this.isRemoved) return;
    const { ended, canceled } = this.#table;
    await this.#table.store(this.id, { isCanceled: true });
    const isEnd = isReported(this.record);
    this.#set({ isCanceled: true });
    if (isEnd) ended.emit({ record: this.record, by: 'cancelled' });
    canceled.emit(this.record);
  }

  /**
   * Waits until a client may request the state, so that one that polls without pause does not load the upstream: once in this time,
   * and at least once in {@link POLL_SPACING_MS}. False if too many requests wait.
   */
  async throttlePoll(spacingMs = POLL_SPACING_MS): Promise<boolean> {
    const now = performance.now();
    const at = Math.max(this.#nextPollAt, now);
    if (at - now > MAX_POLL_WAIT_MS) return false;
    this.#nextPollAt = at + Math.min(spacingMs, POLL_SPACING_MS);
    if (at > now) await delay(at - now, undefined, { ref: false });
    return true;
  }

  /** Stores a request of the upstream for input. False if there are too many, or if the task has ended. */
  addInputRequest(this: UpstreamTask, added: InputRequestRecord): boolean {
    const { inputRequests, status } = this.record;
    if (this.isRemoved || isTerminal(status)) return false;
    if (inputRequests.some(({ requestId }) => requestId === added.requestId)) return true;
    const all = [...inputRequests, added];
    const characters = all.reduce((sum, { request = '' }) => sum + request.length, 0);
    if (all.length > MAX_INPUT_REQUESTS || characters > MAX_INPUT_CHARACTERS) return false;
    this.#setInputRequests(all);
    return true;
  }

  /** Removes requests for input that the upstream has a response to, or has canceled. */
  removeInputRequests(this: UpstreamTask, test: (request: InputRequestRecord) => boolean): void {
    const open = this.record.inputRequests.filter((request) => !test(request));
    if (!this.isRemoved && open.length < this.record.inputRequests.length) this.#setInputRequests(open);
  }

  /** See {@link TaskTable.remove}. */
  remove(): void {
    this.#table.remove(this);
  }

  /** Resolves once the requests for input are durable. */
  async stored(): Promise<void> {
    await this.#storing;
  }

  /** Another replica has changed the record. */
  follow(record: Content): void {
    const isNews = statusOf(this.record) !== statusOf(record) || inputKeys(this.record) !== inputKeys(record);
    this.#set(record);
    if (isNews) this.changed.emit();
    if (record.isCanceled) this.#table.canceled.emit(record);
  }

  #setInputRequests(inputRequests: InputRequestRecord[]): void {
    this.#storing = this.#change({ inputRequests });
    this.changed.emit();
  }

  /** Changes the record at once. A failure to store that costs a request to the upstream after the next start. */
  #change(change: TaskChange): Promise<void> {
    this.#set(change);
    return this.#table.store(this.id, change).catch(() => undefined);
  }

  /** Changes the record in memory. The session of a task that has ended is not kept open any more. */
  #set(change: TaskChange): void {
    const before: TaskRecord = this.record;
    this.record = { ...this.record, ...change };
    if (!isActive(this.record)) this.unpin();
    const { session } = change;
    if (before.kind === 'core' && session && session.id !== before.session?.id) this.#table.onMoved(this, before);
  }
}

/** A task of an upstream. */
export type UpstreamTask = Task<UpstreamRecord>;

export function isUpstreamTask(task: Task): task is UpstreamTask {
  return task.record.kind !== 'call';
}

/** Whether the states of a task are reported: until its end is. Of tasks that no client knows, the calls are. */
export function isReported(record: TaskRecord): boolean {
  return !isInternal(record) && isOpen(record);
}

/** Returns what a modern upstream reports besides the state of a task. */
function detailsOf({ result, inputRequests }: JsonObject): Pick<TaskChange, 'isError' | 'inputRequests'> {
  const open: InputRequestRecord[] = [];
  let characters = 0;
  for (const key of isJsonObject(inputRequests) ? Object.keys(inputRequests) : []) {
    characters += key.length;
    if (characters <= MAX_KEY_CHARACTERS) open.push({ key });
  }
  return { isError: isErrorResult(result), inputRequests: open };
}

/** The part of a state that changes, as records have it. */
export function reportedState(state: NewState) {
  const { status, lastUpdatedAt, pollIntervalMs } = state;
  const statusMessage = state.statusMessage && truncateCharacters(state.statusMessage, MAX_MESSAGE_CHARACTERS);
  return { status, statusMessage, lastUpdatedAt, ttlMs: boundedTtl(state), pollIntervalMs };
}

/** Returns a time to live within ours, in milliseconds. */
export function boundedTtl({ ttlMs }: Pick<TaskState, 'ttlMs'>): number {
  return Math.min(ttlMs ?? MAX_TTL_MS, MAX_TTL_MS);
}

/** When the record of a task is removed that was created at this time. */
export function expiryOf(created: number, state: Pick<TaskState, 'ttlMs'>): number {
  return created + boundedTtl(state) + GRACE_MS;
}

/** The stored part of a legacy session. */
export function sessionRecord({ sessionId, protocolVersion }: UpstreamSession): UpstreamRecord['session'] {
  return { ...(sessionId !== undefined && { id: sessionId }), protocolVersion };
}

function inputKeys(record: TaskRecord): string | undefined {
  return record.kind === 'call' ? undefined : record.inputRequests.map(({ key }) => key).join();
}

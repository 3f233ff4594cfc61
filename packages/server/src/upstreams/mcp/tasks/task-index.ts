import { Emitter } from '@sluice/protocol/emitter';
import { isTerminal } from '@sluice/protocol/mcp/tasks';
import type { UpstreamSession } from '../upstream.ts';
import { isOpen, type TaskChange, type TaskRecord } from './task-record.ts';

/** A task as this process knows it. */
export interface KnownTask {
  record: TaskRecord;
  /** The upstream session that its requests are sent in, if that is open here. */
  session: UpstreamSession | undefined;
  /** Whether it keeps that session open: in the legacy era, until it has ended. */
  isPinned: boolean;
  /** Stored by another replica, which reports if the task expires. */
  readonly isForeign: boolean;
  /** Another state is known. */
  readonly changed: Emitter;
  /** When clients may request its state again: milliseconds of `performance.now()`. */
  nextPollAt: number;
  /** Resolves once its questions are durable. */
  storing: Promise<void> | undefined;
}

/** The known tasks by our ids, and by whatever clients and upstreams refer to. */
export class TaskIndex {
  protected readonly tasks = new Map<string, KnownTask>();
  /** Ids by user, and by session of the client, oldest first. */
  readonly #byOwner = new Map<string, Set<string>>();
  /** Ids by upstream, its session, and its own id of the task or progress token. */
  readonly #byPlace = new Map<string, string>();

  /** Number of records. */
  get size(): number {
    return this.tasks.size;
  }

  /** All tasks, the oldest first. */
  all(): TaskRecord[] {
    return Array.from(this.tasks.values(), ({ record }) => record).sort((a, b) => a.created - b.created);
  }

  /** Number of tasks whose end is not known, without those of clients that do not know them. */
  get openCount(): number {
    return this.tasks.values().reduce((sum, { record }) => sum + (isOpen(record) && !record.isInternal ? 1 : 0), 0);
  }

  /** Returns the task with this id of ours, whoever's it is. */
  get(id: string): TaskRecord | undefined {
    return this.tasks.get(id)?.record;
  }

  /** Returns the task with this progress token at an upstream, in a session there. */
  findProgress(address: string, session: string | undefined, token: string): TaskRecord | undefined {
    return this.get(this.#byPlace.get(placeKey('token', address, session, token)) ?? '');
  }

  /** Returns the task with this id at an upstream, in a session there. */
  findUpstream(address: string, session: string | undefined, upstreamId: string): TaskRecord | undefined {
    return this.get(this.#byPlace.get(placeKey('id', address, session, upstreamId)) ?? '');
  }

  /** Returns the tasks that were created in a session of a client, oldest first. */
  ofSession(clientSession: string): TaskRecord[] {
    return this.#owned(sessionKey(clientSession));
  }

  /** Returns the tasks that count for a user, oldest first. */
  protected ofUser(name: string): TaskRecord[] {
    return this.#owned(userKey(name));
  }

  /** Returns the upstream session that the requests of a task are sent in, if it is open in this process. */
  sessionOf({ id }: TaskRecord): UpstreamSession | undefined {
    return this.tasks.get(id)?.session;
  }

  /**
   * Calls back whenever another status of a task is known, its upstream reports another message, or its questions change. Returns
   * the function that ends that.
   */
  onChange({ id }: TaskRecord, listener: () => void): () => void {
    return this.tasks.get(id)?.changed.subscribe(listener) ?? (() => undefined);
  }

  protected add(record: TaskRecord, session: UpstreamSession | undefined, isForeign: boolean): void {
    const { id } = record;
    const polling = { nextPollAt: 0, storing: undefined, changed: new Emitter() };
    const task: KnownTask = { record, isForeign, session: undefined, isPinned: false, ...polling };
    this.tasks.set(id, task);
    for (const key of ownerKeys(record)) this.#byOwner.getOrInsertComputed(key, () => new Set()).add(id);
    for (const key of placeKeys(record)) this.#byPlace.set(key, id);
    if (session) this.pin(task, session);
  }

  protected drop(id: string): TaskRecord | undefined {
    const task = this.tasks.get(id);
    if (!task) return undefined;
    this.unpin(task);
    this.tasks.delete(id);
    for (const key of ownerKeys(task.record)) {
      const ids = this.#byOwner.get(key);
      if (ids?.delete(id) && ids.size === 0) this.#byOwner.delete(key);
    }
    this.#dropPlaces(task.record);
    return task.record;
  }

  /** Changes a record in memory. */
  protected set(task: KnownTask, change: TaskChange): void {
    const before = task.record;
    task.record = { ...before, ...change };
    if (before.session?.id === task.record.session?.id) return;
    // The task is known in another session now.
    this.#dropPlaces(before);
    for (const key of placeKeys(task.record)) this.#byPlace.set(key, before.id);
  }

  /** Sets the session of a task, which stays open until that has ended. */
  protected pin(task: KnownTask, session: UpstreamSession): void {
    this.unpin(task);
    task.session = session;
    if (session.era === 'modern' || isTerminal(task.record.status)) return;
    session.tasks++;
    task.isPinned = true;
  }

  protected unpin(task: KnownTask): void {
    const { session, isPinned } = task;
    if (!session || !isPinned) return;
    task.isPinned = false;
    session.tasks--;
    if (session.inFlight === 0 && session.tasks === 0) session.onIdle?.();
  }

  #owned(key: string): TaskRecord[] {
    return Array.from(this.#byOwner.get(key) ?? []).flatMap((id) => this.get(id) ?? []);
  }

  #dropPlaces(record: TaskRecord): void {
    for (const key of placeKeys(record)) if (this.#byPlace.get(key) === record.id) this.#byPlace.delete(key);
  }
}

function ownerKeys({ holder, clientSession }: TaskRecord): string[] {
  return [userKey(holder.name), ...(clientSession === undefined ? [] : [sessionKey(clientSession)])];
}

function placeKeys({ address, session, upstreamId, progress }: TaskRecord): string[] {
  const id = placeKey('id', address, session?.id, upstreamId);
  return progress ? [id, placeKey('token', address, session?.id, progress.upstream)] : [id];
}

function userKey(name: string): string {
  return `user ${name}`;
}

function sessionKey(id: string): string {
  return `session ${id}`;
}

function placeKey(kind: 'id' | 'token', address: string, session: string | undefined, name: string): string {
  return JSON.stringify([kind, address, session, name]);
}

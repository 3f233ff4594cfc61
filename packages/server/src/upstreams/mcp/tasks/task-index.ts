import { Emitter } from '@sluice/protocol/emitter';
import type { UpstreamSession } from '../upstream-sessions.ts';
import {
  type CoreTask,
  isActive,
  isInternal,
  isOpen,
  type TaskChange,
  type TaskRecord,
  type UpstreamTask,
} from './task-record.ts';

/** A task as this process knows it. */
export interface KnownTask {
  record: TaskRecord;
  /** The upstream session that the requests of a core task are sent in, if that is open here. */
  session: UpstreamSession | undefined;
  /** Whether it keeps that session open: until it has ended. */
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
  /** Ids by {@link groupsOf}, the oldest first. */
  readonly #ids = new Map<string, Set<string>>();
  /** The latest id by {@link placesOf}: an upstream may use one for any number of tasks. */
  readonly #latest = new Map<string, string>();

  /** Number of records. */
  get size(): number {
    return this.tasks.size;
  }

  /** All tasks, the oldest first. */
  all(): TaskRecord[] {
    return Array.from(this.tasks.values(), ({ record }) => record).sort((a, b) => a.created - b.created);
  }

  /** Number of tasks whose end is not known, without those that no client knows. */
  get openCount(): number {
    return this.tasks.values().reduce((sum, { record }) => sum + (isOpen(record) && !isInternal(record) ? 1 : 0), 0);
  }

  /** Returns the task with this id of ours, whoever's it is. */
  get(id: string): TaskRecord | undefined {
    return this.tasks.get(id)?.record;
  }

  /** Returns the present state of a record; undefined if it was removed. */
  latest<Kind extends TaskRecord>({ id, kind }: Kind): Kind | undefined {
    const record = this.get(id);
    return record?.kind === kind ? (record as Kind) : undefined;
  }

  /** Returns the core task with this progress token at an upstream, in a session there. */
  findProgress(address: string, session: string | undefined, token: string): CoreTask | undefined {
    return this.#findLatest('token', address, session, token);
  }

  /** Returns the core task with this id at an upstream, in a session there. */
  findUpstream(address: string, session: string | undefined, upstreamId: string): CoreTask | undefined {
    return this.#findLatest('id', address, session, upstreamId);
  }

  /** Returns the tasks that were created in a session of a client, oldest first. */
  ofSession(clientSession: string): UpstreamTask[] {
    return this.#find('session', clientSession).filter((record) => record.kind !== 'call');
  }

  /** Returns the tasks that count for a user, oldest first. */
  protected ofUser(name: string): TaskRecord[] {
    return this.#find('user', name);
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
    const polling = { nextPollAt: 0, storing: undefined, changed: new Emitter() };
    const task: KnownTask = { record, isForeign, session: undefined, isPinned: false, ...polling };
    this.tasks.set(record.id, task);
    this.#index(record);
    if (session) this.pin(task, session);
  }

  protected drop(id: string): TaskRecord | undefined {
    const task = this.tasks.get(id);
    if (!task) return undefined;
    this.unpin(task);
    this.tasks.delete(id);
    this.#unindex(task.record);
    return task.record;
  }

  /** Changes a record in memory. The session of a task that has ended is not kept open any more. */
  protected set(task: KnownTask, change: TaskChange): void {
    const { record } = task;
    task.record = { ...record, ...change };
    if (!isActive(task.record)) this.unpin(task);
    if (record.kind !== 'core' || !change.session || change.session.id === record.session.id) return;
    // The task is known in another session now.
    this.#unindex(record);
    this.#index(task.record);
  }

  /** Sets the session of a core task, which stays open until that has ended. */
  protected pin(task: KnownTask, session: UpstreamSession): void {
    this.unpin(task);
    task.session = session;
    if (!isActive(task.record)) return;
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

  #find(...key: Parameters<typeof keyOf>): TaskRecord[] {
    return Array.from(this.#ids.get(keyOf(...key)) ?? []).flatMap((id) => this.get(id) ?? []);
  }

  #findLatest(...key: Parameters<typeof keyOf>): CoreTask | undefined {
    const record = this.get(this.#latest.get(keyOf(...key)) ?? '');
    return record?.kind === 'core' ? record : undefined;
  }

  #index(record: TaskRecord): void {
    for (const key of groupsOf(record)) this.#ids.getOrInsertComputed(key, () => new Set()).add(record.id);
    for (const key of placesOf(record)) this.#latest.set(key, record.id);
  }

  #unindex(record: TaskRecord): void {
    for (const key of groupsOf(record)) {
      const ids = this.#ids.get(key);
      if (ids?.delete(record.id) && ids.size === 0) this.#ids.delete(key);
    }
    for (const key of placesOf(record)) if (this.#latest.get(key) === record.id) this.#latest.delete(key);
  }
}

function keyOf(kind: 'user' | 'session' | 'id' | 'token', ...parts: (string | undefined)[]): string {
  return JSON.stringify([kind, ...parts]);
}

/** What a task is found by together with others. */
function groupsOf(record: TaskRecord): string[] {
  const user = keyOf('user', record.holder.name);
  const session = record.kind === 'call' ? undefined : record.clientSession;
  return session === undefined ? [user] : [user, keyOf('session', session)];
}

/** What a core task is found by alone. */
function placesOf(record: TaskRecord): string[] {
  if (record.kind !== 'core') return [];
  const { address, session, upstreamId, progress } = record;
  const place = keyOf('id', address, session.id, upstreamId);
  return progress ? [place, keyOf('token', address, session.id, progress.upstream)] : [place];
}

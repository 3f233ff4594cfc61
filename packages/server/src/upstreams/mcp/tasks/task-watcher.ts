import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { applyEdits, members } from '@sluice/protocol/json/text';
import { readTask, reportedTaskEdits } from '@sluice/protocol/mcp/tasks';
import { Subscription } from '../streams/subscription.ts';
import type { SubscribingClient } from '../streams/subscription-driver.ts';
import type { Upstream } from '../upstream.ts';
import type { TaskPolls } from './task-polls.ts';
import type { TaskRecord } from './task-record.ts';
import { MAX_TTL_MS, type Tasks } from './tasks.ts';

/** Callbacks of a {@link TaskWatcher}. */
export interface TaskWatchHandler {
  /** All upstreams have responded or timed out: exactly these tasks are watched from now on. Called once. */
  onTasksReady(granted: readonly string[]): void;
  /** The state of a task, as the notification of the upstream with our id. False pauses until `resume`. */
  onTask(id: string, text: string): boolean;
  /** Notifications may have been missed, which can only be reported by closing the stream. */
  onMissedEvents(): void;
}

export interface TaskWatcherOptions {
  readonly tasks: Tasks;
  /** Returns the upstream of a task; undefined if it is gone. */
  upstreamOf(record: TaskRecord): Upstream | undefined;
  /** Polls core tasks. */
  readonly polls: TaskPolls;
  /** Whether an operator has hidden the tool of a task: nothing of it reaches clients. */
  isHidden(record: TaskRecord): boolean;
  /** Milliseconds for upstreams to grant subscriptions (default 5000); for tests. */
  readonly readyMs?: number;
}

const READY_MS = 5_000;

/**
 * Watches tasks for one client: those of the extension with one `subscriptions/listen` per upstream, core tasks by polling and by
 * notifications of their upstream.
 */
export class TaskWatcher {
  readonly #options: TaskWatcherOptions;
  readonly #client: SubscribingClient;
  readonly #handler: TaskWatchHandler;
  /** Tasks by upstream and their ids there. */
  readonly #watched = new Map<Upstream, Map<string, TaskRecord>>();
  readonly #subscriptions = new Map<Upstream, Subscription>();
  readonly #granted = new Set<string>();
  /** Core tasks, which are polled. */
  readonly #polled: TaskRecord[] = [];
  /** Functions that end the polls. */
  readonly #polls: (() => void)[] = [];
  #timer: NodeJS.Timeout | undefined = undefined;
  #ready = false;

  constructor(
    options: TaskWatcherOptions,
    client: SubscribingClient,
    records: readonly TaskRecord[],
    handler: TaskWatchHandler,
  ) {
    this.#options = options;
    this.#client = client;
    this.#handler = handler;
    for (const record of records) {
      // The states of calls of our own are not watched.
      const upstream = record.replica === undefined ? options.upstreamOf(record) : undefined;
      if (!upstream) continue;
      if (record.era === 'modern') {
        this.#watched.getOrInsertComputed(upstream, () => new Map()).set(record.upstreamId, record);
      } else {
        this.#granted.add(record.id);
        this.#polled.push(record);
      }
    }
  }

  /** Opens the subscriptions. `onTasksReady` may be called before this returns. */
  start(): void {
    for (const [upstream, records] of this.#watched) this.#open(upstream, records);
    for (const record of this.#polled) this.#poll(record);
    this.#timer = setTimeout(() => this.#settle(), this.#options.readyMs ?? READY_MS).unref();
    this.#settleIfAnswered();
  }

  /** Resumes after `onTask` returned false. */
  resume(): void {
    for (const subscription of this.#subscriptions.values()) subscription.resume();
  }

  /** Closes all subscriptions. */
  close(): void {
    clearTimeout(this.#timer);
    for (const subscription of this.#subscriptions.values()) subscription.close();
    this.#subscriptions.clear();
    for (const stop of this.#polls.splice(0)) stop();
  }

  #poll(record: TaskRecord): void {
    const { polls, isHidden } = this.#options;
    const onChanged = (text: string) => this.#handler.onTask(record.id, text);
    const isReported = () => !isHidden(record);
    this.#polls.push(polls.watch(record, this.#client.headers, { isReported, onChanged }));
  }

  #open(upstream: Upstream, records: ReadonlyMap<string, TaskRecord>): void {
    const subscription = new Subscription({
      upstream,
      era: 'modern',
      filter: { taskIds: [...records.keys()] },
      client: this.#client,
      handler: {
        onGranted: ({ taskIds }, gap) => {
          if (gap) return this.#handler.onMissedEvents();
          for (const taskId of taskIds) {
            const record = records.get(taskId);
            if (record) this.#granted.add(record.id);
          }
          this.#settleIfAnswered();
        },
        onRejected: (_error, final) => {
          if (this.#ready) this.#handler.onMissedEvents();
          else if (final) this.#settleIfAnswered();
        },
        onUpdated: () => true,
        onTask: (text, value) => this.#onTask(records, text, value),
        onUpstreamClosed: () => {
          if (this.#ready) this.#handler.onMissedEvents();
        },
      },
    });
    this.#subscriptions.set(upstream, subscription);
  }

  #onTask(records: ReadonlyMap<string, TaskRecord>, text: string, { params }: JsonObject): boolean {
    const { tasks, isHidden } = this.#options;
    const state = readTask('modern', params);
    const record = state && isJsonObject(params) ? records.get(state.taskId) : undefined;
    if (!state || !record || isHidden(record)) return true;
    if (!tasks.observe(record, state, { by: 'notified', content: isJsonObject(params) ? params : {} })) return true;
    for (const { key, start } of members(text)) {
      if (key !== 'params') continue;
      const edits = reportedTaskEdits('modern', text, start, { id: record.id, maxTtlMs: MAX_TTL_MS });
      return this.#handler.onTask(record.id, applyEdits(text, edits));
    }
    return true;
  }

  #settleIfAnswered(): void {
    if ([...this.#subscriptions.values()].every((subscription) => subscription.isSettled)) this.#settle();
  }

  #settle(): void {
    if (this.#ready) return;
    this.#ready = true;
    clearTimeout(this.#timer);
    this.#handler.onTasksReady([...this.#granted]);
  }
}

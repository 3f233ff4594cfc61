import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { translatedCapabilities } from '@sluice/protocol/mcp/capabilities';
import { INVALID_PARAMS } from '@sluice/protocol/mcp/constants';
import type { Implementation } from '@sluice/protocol/mcp/message';
import {
  isTerminal,
  readTask,
  TASK_NOTIFICATION,
  TASK_STATUS_NOTIFICATION,
  translatedTask,
  withTasksExtension,
} from '@sluice/protocol/mcp/tasks';
import type { DownstreamChannel, DownstreamSession, StreamListener } from '../../downstream.ts';
import { Subscription } from '../streams/subscription.ts';
import type { SubscribingClient } from '../streams/subscription-driver.ts';
import type { Upstream } from '../upstream.ts';
import { MIN_POLL_MS, pollDelayMs } from './polled-call.ts';
import type { TaskReading } from './requests.ts';
import { type CoreTask, type ExtensionTask, stateOf, type TaskRecord, type UpstreamTask } from './task-record.ts';
import type { Tasks } from './tasks.ts';
import { reportedTask, withReportedTask } from './translation.ts';

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
  upstreamOf(record: UpstreamTask): Upstream | undefined;
  /** Polls core tasks. */
  readonly polls: TaskPolls;
  /** Whether an operator has hidden the tool of a task: nothing of it reaches clients. */
  isHidden(record: TaskRecord): boolean;
}

/** Time for upstreams to grant subscriptions, in milliseconds. */
const READY_MS = 5_000;

/**
 * Watches tasks for one client: those of the extension with one `subscriptions/listen` per upstream, core tasks by polling and by
 * notifications of their upstream.
 */
export class TaskWatcher {
  readonly #options: TaskWatcherOptions;
  readonly #client: SubscribingClient;
  readonly #handler: TaskWatchHandler;
  readonly #records: readonly TaskRecord[];
  readonly #subscriptions = new Map<Upstream, Subscription>();
  readonly #granted = new Set<string>();
  /** Functions that end the polls of core tasks. */
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
    this.#records = records;
    this.#handler = handler;
  }

  /** Opens the subscriptions. `onTasksReady` may be called before this returns. */
  start(): void {
    const { polls, isHidden, upstreamOf } = this.#options;
    /** Tasks of the extension by upstream and their ids there. */
    const watched = new Map<Upstream, Map<string, ExtensionTask>>();
    for (const record of this.#records) {
      // The states of calls of our own are not watched.
      const upstream = record.kind === 'call' ? undefined : upstreamOf(record);
      if (upstream && record.kind === 'extension') {
        watched.getOrInsertComputed(upstream, () => new Map()).set(record.upstreamId, record);
      } else if (upstream && record.kind === 'core') {
        const { id } = record;
        this.#granted.add(id);
        const client = {
          isReported: () => !isHidden(record),
          onChanged: (text: string) => this.#handler.onTask(id, text),
        };
        this.#polls.push(polls.watch(record, this.#client.headers, client));
      }
    }
    for (const [upstream, records] of watched) this.#open(upstream, records);
    this.#timer = setTimeout(() => this.#settle(), READY_MS).unref();
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

  #open(upstream: Upstream, records: ReadonlyMap<string, ExtensionTask>): void {
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
        onTask: (text, value) => this.#onTask(records, text, value),
        onUpstreamClosed: () => {
          if (this.#ready) this.#handler.onMissedEvents();
        },
      },
    });
    this.#subscriptions.set(upstream, subscription);
  }

  #onTask(records: ReadonlyMap<string, ExtensionTask>, text: string, { params }: JsonObject): boolean {
    const { tasks, isHidden } = this.#options;
    const content = isJsonObject(params) ? params : {};
    const state = readTask('modern', content);
    const record = state && records.get(state.taskId);
    if (!state || !record || isHidden(record)) return true;
    if (!tasks.observe(record, state, { by: 'notified', content })) return true;
    return this.#handler.onTask(record.id, withReportedTask('modern', text, 'params', reportedTask(record)));
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

/** Notifies legacy clients of the status of their tasks of modern upstreams, while they have a notification stream. */
export class SessionTasks {
  readonly #options: TaskWatcherOptions;
  /** Identity of clients that have none. */
  readonly #clientInfo: Implementation;
  /** Functions that watch a further task, by id of the session. */
  readonly #listening = new Map<string, (record: TaskRecord) => void>();

  constructor(options: TaskWatcherOptions, clientInfo: Implementation) {
    this.#options = options;
    this.#clientInfo = clientInfo;
  }

  /** The client has opened a notification stream; `headers` are those of its requests upstream. */
  onListening(session: DownstreamSession, headers: readonly string[]): void {
    for (const record of this.#options.tasks.ofSession(session.id)) this.#watch(record, session, headers);
  }

  /** A task was created in the session. */
  onCreated(record: TaskRecord, session: DownstreamSession, headers: readonly string[]): void {
    if (session.isListening) this.#watch(record, session, headers);
  }

  #watch(record: TaskRecord, session: DownstreamSession, headers: readonly string[]): void {
    if (record.kind !== 'extension' || record.clientEra === 'modern' || isTerminal(record.status)) return;
    const watch = this.#listening.getOrInsertComputed(session.id, () => {
      const client = {
        clientInfo: { ...this.#clientInfo, ...session.clientInfo },
        capabilities: withTasksExtension(translatedCapabilities(session.capabilities, true)),
        headers,
      };
      return watchSession(this.#options, client, session.channel(), () => this.#listening.delete(session.id));
    });
    watch(record);
  }
}

/**
 * Watches tasks of a session while its client listens. One watcher has all of them: for further tasks another one is opened, which
 * replaces it as soon as it is ready. Returns the function that adds a task.
 */
function watchSession(
  options: TaskWatcherOptions,
  client: SubscribingClient,
  channel: DownstreamChannel,
  onUnused: () => void,
): (record: TaskRecord) => void {
  const { tasks } = options;
  /** The watched tasks: the last notification of each, by id. */
  const watched = new Map<string, string>();
  let watcher: TaskWatcher | undefined;
  let next: TaskWatcher | undefined;
  /** True while tasks are watched that neither has. */
  let isOutdated = false;
  const both = () => [watcher, next];
  const listener: StreamListener = {
    onListeningChanged: (isListening) => {
      if (!isListening) close();
    },
  };
  channel.addListener(listener);

  function renew(): void {
    if (!isOutdated || next) return;
    isOutdated = false;
    for (const id of watched.keys()) if (!tasks.get(id)) watched.delete(id);
    const records = Array.from(watched.keys()).flatMap((id) => tasks.get(id) ?? []);
    next = new TaskWatcher(options, client, records, {
      onTasksReady: () => {
        watcher?.close();
        watcher = next;
        next = undefined;
        renew();
      },
      onTask: notify,
      // The client must not rely on these notifications.
      onMissedEvents: () => undefined,
    });
    next.start();
  }

  function notify(id: string): boolean {
    const record = tasks.get(id);
    const last = watched.get(id);
    if (!record || last === undefined) return true;
    const state = stateOf(record);
    const params = translatedTask('legacy', state);
    // Both watchers may have it.
    if (params === last) return true;
    watched.set(id, params);
    const keepsUp = channel.send(`{"jsonrpc":"2.0","method":"${TASK_STATUS_NOTIFICATION}","params":{${params}}}`);
    if (!keepsUp) {
      channel.onDrain(() => {
        for (const each of both()) each?.resume();
      });
    }
    if (isTerminal(state.status)) watched.delete(id);
    if (watched.size === 0) close();
    return keepsUp;
  }

  function close(): void {
    isOutdated = false;
    watched.clear();
    for (const each of both()) each?.close();
    channel.removeListener(listener);
    onUnused();
  }

  return ({ id }) => {
    if (watched.has(id)) return;
    watched.set(id, '');
    isOutdated = true;
    // Others may follow in this turn.
    queueMicrotask(renew);
  };
}

/** A client that watches a core task. */
export interface TaskPollClient {
  /** Whether the client gets notifications at present. */
  isReported(): boolean;
  /** The client gets this notification. */
  onChanged(notification: string): void;
}

/** Reads the state of a core task; the headers are those of the client. Undefined if its upstream is gone. */
export type ReadTask = (record: CoreTask, headers: readonly string[]) => Promise<TaskReading | undefined>;

/**
 * Polls core tasks until they have ended, and notifies their clients of what is new. Clients whose requests have the same
 * headers upstream share one poll of a task.
 */
export class TaskPolls {
  readonly #tasks: PolledTasks;
  readonly #read: ReadTask;
  /** Functions that add a client to a poll. */
  readonly #polls = new Map<string, (client: TaskPollClient) => () => void>();

  constructor(tasks: PolledTasks, read: ReadTask) {
    this.#tasks = tasks;
    this.#read = read;
  }

  /** Polls a task for a client. Returns the function that ends that. */
  watch(record: CoreTask, headers: readonly string[], client: TaskPollClient): () => void {
    const key = JSON.stringify([record.id, headers]);
    const add = this.#polls.getOrInsertComputed(key, () => {
      const read = () => this.#read(record, headers);
      return startPoll(this.#tasks, record, read, () => this.#polls.delete(key));
    });
    return add(client);
  }
}

/** Members of {@link Tasks} that polls use. */
type PolledTasks = Pick<Tasks, 'latest' | 'onChange' | 'pollTurn'>;

/** Begins to poll a task once it has a client. Returns the function that adds one, which returns the function that removes it. */
function startPoll(
  tasks: PolledTasks,
  record: CoreTask,
  read: () => Promise<TaskReading | undefined>,
  onClosed: () => void,
): (client: TaskPollClient) => () => void {
  /** What each client knows. */
  const reported = new Map<TaskPollClient, string>();
  let timer: NodeJS.Timeout | undefined;
  let readAt = Number.NEGATIVE_INFINITY;
  let isReading = false;
  let isClosed = false;
  const stopListening = tasks.onChange(record, () => schedule(0));

  function close(): void {
    if (isClosed) return;
    isClosed = true;
    clearTimeout(timer);
    stopListening();
    onClosed();
  }

  /** Schedules the next read, whatever it is for: an upstream may report another state each time. */
  function schedule(ms: number): void {
    // What this read reports is no reason for another one.
    if (isReading || isClosed) return;
    clearTimeout(timer);
    timer = setTimeout(poll, Math.max(ms, readAt + MIN_POLL_MS - performance.now())).unref();
  }

  async function poll(): Promise<void> {
    isReading = true;
    readAt = performance.now();
    // A request that gets no turn or fails is repeated.
    const isTurn = await tasks.pollTurn({ id: record.id });
    // Also if the database cannot be reached.
    const reading = isTurn && !isClosed ? await read().catch(() => 'failed' as const) : 'failed';
    isReading = false;
    if (isClosed) return;
    if (reading === 'failed') return schedule(pollDelayMs(record));
    if (!reading || (reading.kind === 'error' && reading.error.code === INVALID_PARAMS)) return close();
    if (reading.kind === 'task') report(reading);
    const state = reading.kind === 'task' ? reading.state : record;
    if (isTerminal(state.status)) close();
    else schedule(pollDelayMs(state));
  }

  function report({ state: { status, statusMessage }, members }: TaskReading & { kind: 'task' }): void {
    const { questions } = tasks.latest(record) ?? record;
    const state = JSON.stringify([status, statusMessage, questions.map(({ key }) => key)]);
    for (const [client, known] of reported) {
      if (state === known || !client.isReported()) continue;
      reported.set(client, state);
      client.onChanged(`{"jsonrpc":"2.0","method":"${TASK_NOTIFICATION}","params":{${members}}}`);
    }
  }

  return (client) => {
    reported.set(client, JSON.stringify(['working', record.statusMessage, []]));
    schedule(0);
    return () => {
      reported.delete(client);
      if (reported.size === 0) close();
    };
  };
}

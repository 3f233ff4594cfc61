import { setTimeout as delay } from 'node:timers/promises';
import { isJsonObject } from '@sluice/protocol/json/parse';
import { translatedCapabilities } from '@sluice/protocol/mcp/capabilities';
import { INTERNAL_ERROR, INVALID_PARAMS } from '@sluice/protocol/mcp/constants';
import type { Implementation } from '@sluice/protocol/mcp/message';
import {
  isTerminal,
  readTask,
  TASK_NOTIFICATION,
  TASK_STATUS_NOTIFICATION,
  translatedTask,
  withTasksExtension,
} from '@sluice/protocol/mcp/tasks';
import { rpcError } from '../../../http/outcome.ts';
import type { DownstreamChannel, DownstreamSession, StreamListener } from '../../downstream.ts';
import { Subscription } from '../streams/subscription.ts';
import type { SubscribingClient } from '../streams/subscription-driver.ts';
import type { Upstream } from '../upstream.ts';
import { MIN_POLL_MS, Pause, pollDelayMs } from './polled-call.ts';
import type { TaskReading } from './requests.ts';
import { type CoreTask, type ExtensionTask, stateOf, type TaskRecord, type UpstreamTask } from './task-record.ts';
import type { Tasks } from './tasks.ts';
import { reportedTask, withReportedTask } from './translation.ts';

/** Callbacks of {@link watchTasks}; none before that returns. */
export interface TaskWatchHandler {
  /** All upstreams have responded or timed out: exactly these tasks are watched from now on. Called once. */
  onTasksReady(granted: readonly string[]): void;
  /** The state of a task, as the notification of the upstream with our id. False pauses until `resume`. */
  onTask(id: string, text: string): boolean;
  /** Notifications may have been missed, which can only be reported by closing the stream. */
  onMissedEvents?(): void;
}

export interface TaskWatcherOptions {
  readonly tasks: Tasks;
  /** Identity of clients that have none. */
  readonly clientInfo: Implementation;
  /** Returns the upstream of a task; undefined if it is gone. */
  upstreamOf(record: UpstreamTask): Upstream | undefined;
  /** Polls core tasks. */
  readonly polls: TaskPolls;
  /** Whether an operator has hidden the tool of a task: nothing of it reaches clients. */
  isHidden(record: TaskRecord): boolean;
}

/** Tasks that are watched for a client. */
export interface TaskWatch {
  /** Resumes after `onTask` returned false. */
  resume(): void;
  /** Closes all subscriptions. */
  close(): void;
}

/** Time for upstreams to grant subscriptions, in milliseconds. */
const READY_MS = 5_000;

/**
 * Watches tasks for one client: those of the extension with one `subscriptions/listen` per upstream, core tasks by polling and by
 * notifications of their upstream. The states of calls of our own are not watched.
 */
export function watchTasks(
  { tasks, polls, isHidden, upstreamOf }: TaskWatcherOptions,
  client: SubscribingClient,
  records: readonly TaskRecord[],
  handler: TaskWatchHandler,
): TaskWatch {
  const subscriptions: Subscription[] = [];
  const open = new DisposableStack();
  const granted = new Set<string>();
  let isReady = false;
  const timer = setTimeout(settle, READY_MS).unref();
  open.defer(() => clearTimeout(timer));

  function settle(): void {
    if (isReady || open.disposed) return;
    isReady = true;
    clearTimeout(timer);
    handler.onTasksReady([...granted]);
  }

  function settleIfAnswered(): void {
    if (subscriptions.every(({ isSettled }) => isSettled)) settle();
  }

  function poll(record: CoreTask): void {
    const { id } = record;
    granted.add(id);
    const onChanged = (text: string): boolean => {
      if (isHidden(record)) return false;
      handler.onTask(id, text);
      return true;
    };
    open.defer(polls.watch(record, client.headers, onChanged));
  }

  /** `watched`: the tasks by their ids at the upstream. */
  function subscribe(upstream: Upstream, watched: ReadonlyMap<string, ExtensionTask>): void {
    const subscription = new Subscription({
      upstream,
      era: 'modern',
      filter: { taskIds: [...watched.keys()] },
      client,
      handler: {
        onGranted: ({ taskIds }, gap) => {
          if (gap) return handler.onMissedEvents?.();
          for (const { id } of taskIds.flatMap((taskId) => watched.get(taskId) ?? [])) granted.add(id);
          settleIfAnswered();
        },
        onRejected: (_error, final) => {
          if (isReady) handler.onMissedEvents?.();
          else if (final) settleIfAnswered();
        },
        onTask: (text, { params }) => {
          const content = isJsonObject(params) ? params : {};
          const state = readTask('modern', content);
          const record = state && watched.get(state.taskId);
          if (!state || !record || isHidden(record)) return true;
          if (!tasks.observe(record, state, { by: 'notified', content })) return true;
          return handler.onTask(record.id, withReportedTask('modern', text, 'params', reportedTask(record)));
        },
        onUpstreamClosed: () => isReady && handler.onMissedEvents?.(),
      },
    });
    subscriptions.push(subscription);
    open.defer(() => subscription.close());
  }

  /** Tasks of the extension by upstream and their ids there. */
  const watched = new Map<Upstream, Map<string, ExtensionTask>>();
  for (const record of records) {
    const upstream = record.kind === 'call' ? undefined : upstreamOf(record);
    if (upstream && record.kind === 'core') poll(record);
    if (!upstream || record.kind !== 'extension') continue;
    watched.getOrInsertComputed(upstream, () => new Map()).set(record.upstreamId, record);
  }
  for (const [upstream, ofUpstream] of watched) subscribe(upstream, ofUpstream);
  queueMicrotask(settleIfAnswered);
  return {
    resume() {
      for (const subscription of subscriptions) subscription.resume();
    },
    close: () => open.dispose(),
  };
}

/** Notifies legacy clients of the status of their tasks of modern upstreams, while they have a notification stream. */
export class SessionTasks {
  readonly #options: TaskWatcherOptions;
  /** Functions that watch a further task, by id of the session. */
  readonly #listening = new Map<string, (record: TaskRecord) => void>();

  constructor(options: TaskWatcherOptions) {
    this.#options = options;
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
        clientInfo: { ...this.#options.clientInfo, ...session.clientInfo },
        capabilities: withTasksExtension(translatedCapabilities(session.capabilities, true)),
        headers,
      };
      return watchSession(this.#options, client, session.channel(), () => this.#listening.delete(session.id));
    });
    watch(record);
  }
}

/**
 * Watches tasks of a session while its client listens, which must not rely on that. One watch has all of them: for further tasks
 * another one is opened, which replaces it as soon as it is ready. Returns the function that adds a task.
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
  /** The current watch, and the one that is to replace it. */
  const watches: TaskWatch[] = [];
  let isOpening = false;
  /** True while tasks are watched that no watch has. */
  let isOutdated = false;
  const listener: StreamListener = {
    onListeningChanged: (isListening) => {
      if (!isListening) close();
    },
  };
  channel.addListener(listener);

  function renew(): void {
    if (!isOutdated || isOpening) return;
    isOutdated = false;
    isOpening = true;
    for (const id of watched.keys()) if (!tasks.get(id)) watched.delete(id);
    const records = Array.from(watched.keys()).flatMap((id) => tasks.get(id) ?? []);
    const onTasksReady = (): void => {
      isOpening = false;
      if (watches.length > 1) watches.shift()?.close();
      renew();
    };
    watches.push(watchTasks(options, client, records, { onTasksReady, onTask: notify }));
  }

  function notify(id: string): boolean {
    const record = tasks.get(id);
    const last = watched.get(id);
    if (!record || last === undefined) return true;
    const state = stateOf(record);
    const params = translatedTask('legacy', state);
    // Both watches may have it.
    if (params === last) return true;
    watched.set(id, params);
    const keepsUp = channel.send(`{"jsonrpc":"2.0","method":"${TASK_STATUS_NOTIFICATION}","params":{${params}}}`);
    if (!keepsUp) {
      channel.onDrain(() => {
        for (const watch of watches) watch.resume();
      });
    }
    if (isTerminal(state.status)) watched.delete(id);
    if (watched.size === 0) close();
    return keepsUp;
  }

  function close(): void {
    isOutdated = false;
    watched.clear();
    for (const watch of watches.splice(0)) watch.close();
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

/** Gets the notification of another state of a task. False if the client gets none at present. */
type OnChanged = (notification: string) => boolean;

/** Reads the state of a core task with these headers, for those who share them. Undefined if its upstream is gone. */
type ReadTask = (record: CoreTask, headers: readonly string[]) => Promise<TaskReading | undefined>;

/**
 * Polls core tasks until they have ended, and notifies their clients of what is new. Clients whose requests have the same
 * headers upstream share one poll of a task.
 */
export class TaskPolls {
  readonly #tasks: Pick<Tasks, 'latest' | 'onChange' | 'pollTurn'>;
  readonly #read: ReadTask;
  readonly #polls = new Map<string, TaskPoll>();

  constructor(tasks: Pick<Tasks, 'latest' | 'onChange' | 'pollTurn'>, read: ReadTask) {
    this.#tasks = tasks;
    this.#read = read;
  }

  /** Polls a task for a client. Returns the function that ends that. */
  watch(record: CoreTask, headers: readonly string[], client: OnChanged): () => void {
    const key = JSON.stringify([record.id, headers]);
    const { clients, pause } = this.#polls.getOrInsertComputed(key, () => {
      const poll = { clients: new Map<OnChanged, string>(), pause: new Pause() };
      queueMicrotask(() => void this.#run(record, headers, poll, () => this.#polls.delete(key)));
      return poll;
    });
    clients.set(client, JSON.stringify(['working', record.statusMessage, []]));
    pause.end();
    return () => {
      clients.delete(client);
      pause.end();
    };
  }

  async #run(record: CoreTask, headers: readonly string[], { clients, pause }: TaskPoll, onEnd: () => void) {
    using cleanup = new DisposableStack();
    cleanup.defer(onEnd);
    // What a read itself reports is no reason for another one.
    cleanup.defer(this.#tasks.onChange(record, () => pause.end()));
    while (clients.size > 0) {
      const readAt = performance.now();
      // A request that gets no turn or fails is repeated, also if the database cannot be reached.
      const isTurn = await this.#tasks.pollTurn({ id: record.id });
      const reading = isTurn ? await this.#read(record, headers).catch(() => FAILED) : FAILED;
      if (!reading || (reading.kind === 'error' && reading.error.code === INVALID_PARAMS)) return;
      if (reading.kind === 'task') this.#report(record, reading, clients);
      const state = reading.kind === 'task' ? reading.state : record;
      if (isTerminal(state.status)) return;
      if (clients.size > 0) await pause.wait(pollDelayMs(state));
      // An upstream may report another state each time.
      await delay(Math.max(0, readAt + MIN_POLL_MS - performance.now()), undefined, { ref: false });
    }
  }

  #report(
    record: CoreTask,
    { state: { status, statusMessage }, members }: TaskReading & { kind: 'task' },
    clients: TaskPoll['clients'],
  ): void {
    const { questions } = this.#tasks.latest(record) ?? record;
    const state = JSON.stringify([status, statusMessage, questions.map(({ key }) => key)]);
    const notification = `{"jsonrpc":"2.0","method":"${TASK_NOTIFICATION}","params":{${members}}}`;
    for (const [client, known] of clients) {
      if (state === known) continue;
      clients.set(client, state);
      // It may have been removed meanwhile.
      if (!client(notification) && clients.has(client)) clients.set(client, known);
    }
  }
}

const FAILED: TaskReading = rpcError(INTERNAL_ERROR, 'the state could not be read');

interface TaskPoll {
  /** What each client knows. */
  readonly clients: Map<OnChanged, string>;
  readonly pause: Pause;
}

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
import { withTimeout } from '@sluice/protocol/timing';
import { rpcError } from '../../../http/outcome.ts';
import type { DownstreamChannel, DownstreamSession, StreamListener } from '../../downstream.ts';
import { Subscription } from '../streams/subscription.ts';
import type { SubscribingClient } from '../streams/subscription-driver.ts';
import type { Upstream } from '../upstream.ts';
import { MIN_POLL_MS, Pause, pollDelayMs } from './polled-call.ts';
import type { TaskReading } from './requests.ts';
import { isUpstreamTask, type Task, type UpstreamTask } from './task.ts';
import { stateOf, type TaskRecord } from './task-record.ts';
import type { Tasks } from './tasks.ts';
import { withReportedTask } from './translation.ts';

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
  upstreamOf(task: UpstreamTask): Upstream | undefined;
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
  { polls, isHidden, upstreamOf }: Omit<TaskWatcherOptions, 'tasks'>,
  client: SubscribingClient,
  tasks: readonly Task[],
  handler: TaskWatchHandler,
): TaskWatch {
  const open = new DisposableStack();
  const closed = Promise.withResolvers<void>();
  open.defer(closed.resolve);
  const subscriptions: Subscription[] = [];
  const granted = new Set<string>();
  let isReady = false;

  function poll(task: UpstreamTask): void {
    granted.add(task.id);
    const onChanged = (text: string): boolean => {
      if (isHidden(task.record)) return false;
      handler.onTask(task.id, text);
      return true;
    };
    open.defer(polls.watch(task, client.headers, onChanged));
  }

  /** Resolves once the upstream has granted or rejected the subscription. */
  function subscribe(upstream: Upstream, watched: readonly UpstreamTask[]): Promise<void> {
    const settled = Promise.withResolvers<void>();
    const byId = new Map(watched.map((task) => [task.record.upstreamId, task]));
    const subscription = new Subscription({
      upstream,
      era: 'modern',
      filter: { taskIds: [...byId.keys()] },
      client,
      handler: {
        onGranted: ({ taskIds }, gap) => {
          if (gap) return handler.onMissedEvents?.();
          for (const { id } of taskIds.flatMap((taskId) => byId.get(taskId) ?? [])) granted.add(id);
          settled.resolve();
        },
        onRejected: (_error, final) => {
          if (isReady) handler.onMissedEvents?.();
          else if (final) settled.resolve();
        },
        onTask: (text, { params }) => {
          const content = isJsonObject(params) ? params : {};
          const state = readTask('modern', content);
          const task = state && byId.get(state.taskId);
          if (!task || isHidden(task.record) || !task.observe(state, { by: 'notified', content })) return true;
          return handler.onTask(task.id, withReportedTask(task, text, 'params'));
        },
        onUpstreamClosed: () => isReady && handler.onMissedEvents?.(),
      },
    });
    subscriptions.push(subscription);
    open.defer(() => subscription.close());
    return settled.promise;
  }

  const settling: Promise<void>[] = [];
  for (const [upstream, watched] of Map.groupBy(tasks.filter(isUpstreamTask), upstreamOf)) {
    if (!upstream) continue;
    const { core = [], extension } = Object.groupBy(watched, ({ record }) => record.kind);
    for (const task of core) poll(task);
    if (extension) settling.push(subscribe(upstream, extension));
  }
  void withTimeout(READY_MS, Promise.race([Promise.all(settling), closed.promise])).then(() => {
    isReady = true;
    if (!open.disposed) handler.onTasksReady([...granted]);
  });
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
  readonly #listening = new Map<string, (task: Task) => void>();

  constructor(options: TaskWatcherOptions) {
    this.#options = options;
  }

  /** The client has opened a notification stream; `headers` are those of its requests upstream. */
  onListening(session: DownstreamSession, headers: readonly string[]): void {
    for (const task of this.#options.tasks.ofSession(session.id)) this.#watch(task, session, headers);
  }

  /** A task was created in the session. */
  onCreated(task: Task, session: DownstreamSession, headers: readonly string[]): void {
    if (session.active?.isListening) this.#watch(task, session, headers);
  }

  #watch(task: Task, session: DownstreamSession, headers: readonly string[]): void {
    const { record } = task;
    if (record.kind !== 'extension' || record.clientEra === 'modern' || isTerminal(record.status)) return;
    const watch = this.#listening.getOrInsertComputed(session.id, () => {
      const client = {
        clientInfo: { ...this.#options.clientInfo, ...session.clientInfo },
        capabilities: withTasksExtension(translatedCapabilities(session.capabilities, true)),
        headers,
      };
      return watchSession(this.#options, client, session.channel(), () => this.#listening.delete(session.id));
    });
    watch(task);
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
): (task: Task) => void {
  /** The watched tasks: the last notification of each, by id. */
  const watched = new Map<string, { readonly task: Task; last: string }>();
  /** The current watch, and the one that is to replace it. */
  const watches: TaskWatch[] = [];
  let isOpening = false;
  /** True while tasks are watched that no watch has. */
  let isOutdated = false;
  const listener: StreamListener = { onListeningChanged: (isListening) => isListening || close() };
  channel.addListener(listener);

  function renew(): void {
    if (!isOutdated || isOpening) return;
    isOutdated = false;
    isOpening = true;
    for (const { task } of watched.values()) if (task.isRemoved) watched.delete(task.id);
    const tasks = Array.from(watched.values(), ({ task }) => task);
    const onTasksReady = (): void => {
      isOpening = false;
      if (watches.length > 1) watches.shift()?.close();
      renew();
    };
    watches.push(watchTasks(options, client, tasks, { onTasksReady, onTask: notify }));
  }

  function notify(id: string): boolean {
    const known = watched.get(id);
    if (!known || known.task.isRemoved) return true;
    const state = stateOf(known.task.record);
    const params = translatedTask('legacy', state);
    // Both watches may have it.
    if (params === known.last) return true;
    known.last = params;
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

  return (task) => {
    if (watched.has(task.id)) return;
    watched.set(task.id, { task, last: '' });
    isOutdated = true;
    // Others may follow in this turn.
    queueMicrotask(renew);
  };
}

/** Gets the notification of another state of a task. False if the client gets none at present. */
type OnChanged = (notification: string) => boolean;

/** Reads the state of a core task with these headers, for those who share them. Undefined if its upstream is gone. */
type ReadTask = (task: UpstreamTask, headers: readonly string[]) => Promise<TaskReading | undefined>;

/**
 * Polls core tasks until they have ended, and notifies their clients of what is new. Clients whose requests have the same
 * headers upstream share one poll of a task.
 */
export class TaskPolls {
  readonly #read: ReadTask;
  readonly #polls = new Map<string, TaskPoll>();

  constructor(read: ReadTask) {
    this.#read = read;
  }

  /** Polls a task for a client. Returns the function that ends that. */
  watch(task: UpstreamTask, headers: readonly string[], client: OnChanged): () => void {
    const key = JSON.stringify([task.id, headers]);
    const { clients, pause } = this.#polls.getOrInsertComputed(key, () => {
      const poll = { clients: new Map<OnChanged, string>(), pause: new Pause() };
      queueMicrotask(() => void this.#run(task, headers, poll).finally(() => this.#polls.delete(key)));
      return poll;
    });
    clients.set(client, JSON.stringify(['working', task.record.statusMessage, []]));
    pause.end();
    return () => {
      clients.delete(client);
      pause.end();
    };
  }

  async #run(task: UpstreamTask, headers: readonly string[], { clients, pause }: TaskPoll): Promise<void> {
    // What a read itself reports is no reason for another one.
    using stop = new DisposableStack();
    stop.defer(task.changed.subscribe(() => pause.end()));
    while (clients.size > 0) {
      const readAt = performance.now();
      // A request that is throttled for too long or fails is repeated, also if the database cannot be reached.
      const mayPoll = await task.throttlePoll();
      const reading = mayPoll ? await this.#read(task, headers).catch(() => FAILED) : FAILED;
      if (!reading || (reading.kind === 'error' && reading.error.code === INVALID_PARAMS)) return;
      if (reading.kind === 'task') report(task, reading, clients);
      const state = reading.kind === 'task' ? reading.state : task.record;
      if (isTerminal(state.status)) return;
      if (clients.size > 0) await pause.wait(pollDelayMs(state));
      // An upstream may report another state each time.
      await delay(Math.max(0, readAt + MIN_POLL_MS - performance.now()), undefined, { ref: false });
    }
  }
}

function report(
  task: UpstreamTask,
  { state: { status, statusMessage }, members }: TaskReading & { kind: 'task' },
  clients: TaskPoll['clients'],
): void {
  const state = JSON.stringify([status, statusMessage, task.record.inputRequests.map(({ key }) => key)]);
  const notification = `{"jsonrpc":"2.0","method":"${TASK_NOTIFICATION}","params":{${members}}}`;
  for (const [client, known] of clients) {
    if (state === known) continue;
    clients.set(client, state);
    // It may have been removed meanwhile.
    if (!client(notification) && clients.has(client)) clients.set(client, known);
  }
}

const FAILED: TaskReading = rpcError(INTERNAL_ERROR, 'the state could not be read');

interface TaskPoll {
  /** What each client knows. */
  readonly clients: Map<OnChanged, string>;
  readonly pause: Pause;
}

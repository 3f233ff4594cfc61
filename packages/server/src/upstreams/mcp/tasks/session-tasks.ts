import { translatedCapabilities } from '@sluice/protocol/mcp/capabilities';
import type { Implementation } from '@sluice/protocol/mcp/message';
import { isTerminal, TASK_STATUS_NOTIFICATION, translatedTask, withTasksExtension } from '@sluice/protocol/mcp/tasks';
import type { DownstreamChannel, DownstreamSession, StreamListener } from '../../downstream.ts';
import { clientEraOf, stateOf, type TaskRecord } from './task-record.ts';
import { TaskWatcher, type TaskWatcherOptions } from './task-watcher.ts';
import { boundedState } from './tasks.ts';

/** Notifies legacy clients of the status of their tasks of modern upstreams, while they have a notification stream. */
export class SessionTasks {
  readonly #options: TaskWatcherOptions;
  /** Identity of clients that have none. */
  readonly #clientInfo: Implementation;
  /** By id of the session. */
  readonly #listening = new Map<string, ListeningSession>();

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
    if (record.era === 'legacy' || clientEraOf(record) === 'modern' || isTerminal(record.status)) return;
    const listening = this.#listening.getOrInsertComputed(session.id, () => {
      const client = {
        clientInfo: { ...this.#clientInfo, ...session.clientInfo },
        capabilities: withTasksExtension(translatedCapabilities(session.capabilities, true)),
        headers,
      };
      return new ListeningSession(this.#options, client, session.channel(), () => this.#listening.delete(session.id));
    });
    listening.watch(record);
  }
}

/**
 * A session with watched tasks, while its client listens. One watcher has all of them: for further tasks another one is opened,
 * which replaces it as soon as it is ready.
 */
class ListeningSession implements StreamListener {
  readonly #options: TaskWatcherOptions;
  readonly #client: ConstructorParameters<typeof TaskWatcher>[1];
  readonly #channel: DownstreamChannel;
  readonly #onUnused: () => void;
  /** The watched tasks: the last notification of each, by id. */
  readonly #watched = new Map<string, string>();
  #watcher: TaskWatcher | undefined = undefined;
  #next: TaskWatcher | undefined = undefined;
  /** True while tasks are watched that neither has. */
  #isOutdated = false;

  constructor(
    options: TaskWatcherOptions,
    client: ConstructorParameters<typeof TaskWatcher>[1],
    channel: DownstreamChannel,
    onUnused: () => void,
  ) {
    this.#options = options;
    this.#client = client;
    this.#channel = channel;
    this.#onUnused = onUnused;
    channel.addListener(this);
  }

  watch({ id }: TaskRecord): void {
    if (this.#watched.has(id)) return;
    this.#watched.set(id, '');
    this.#isOutdated = true;
    // Others may follow in this turn.
    queueMicrotask(() => this.#renew());
  }

  onListeningChanged(isListening: boolean): void {
    if (!isListening) this.#close();
  }

  #renew(): void {
    if (!this.#isOutdated || this.#next) return;
    this.#isOutdated = false;
    const records: TaskRecord[] = [];
    for (const id of this.#watched.keys()) {
      const record = this.#options.tasks.get(id);
      if (record) records.push(record);
      else this.#watched.delete(id);
    }
    this.#next = new TaskWatcher(this.#options, this.#client, records, {
      onTasksReady: () => this.#replace(),
      onTask: (id) => this.#notify(id),
      // The client must not rely on these notifications.
      onMissedEvents: () => undefined,
    });
    this.#next.start();
  }

  #replace(): void {
    this.#watcher?.close();
    this.#watcher = this.#next;
    this.#next = undefined;
    this.#renew();
  }

  #notify(id: string): boolean {
    const record = this.#options.tasks.get(id);
    const last = this.#watched.get(id);
    if (!record || last === undefined) return true;
    const state = boundedState(stateOf(record), id);
    const params = translatedTask('legacy', state);
    // Both watchers may have it.
    if (params === last) return true;
    this.#watched.set(id, params);
    const keepsUp = this.#channel.send(`{"jsonrpc":"2.0","method":"${TASK_STATUS_NOTIFICATION}","params":{${params}}}`);
    if (!keepsUp) this.#channel.onDrain(() => this.#resume());
    if (isTerminal(state.status)) this.#watched.delete(id);
    if (this.#watched.size === 0) this.#close();
    return keepsUp;
  }

  #resume(): void {
    this.#watcher?.resume();
    this.#next?.resume();
  }

  #close(): void {
    this.#isOutdated = false;
    this.#watched.clear();
    this.#watcher?.close();
    this.#next?.close();
    this.#channel.removeListener(this);
    this.#onUnused();
  }
}

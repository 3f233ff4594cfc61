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

/** A session with watched tasks, while its client listens. */
class ListeningSession implements StreamListener {
  readonly #options: TaskWatcherOptions;
  readonly #client: ConstructorParameters<typeof TaskWatcher>[1];
  readonly #channel: DownstreamChannel;
  readonly #onUnused: () => void;
  readonly #watchers = new Map<string, TaskWatcher>();

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

  watch(record: TaskRecord): void {
    const { id } = record;
    if (this.#watchers.has(id)) return;
    const watcher = new TaskWatcher(this.#options, this.#client, [record], {
      onTasksReady: () => undefined,
      onTask: () => this.#notify(id),
      // The client must not rely on these notifications.
      onMissedEvents: () => undefined,
    });
    this.#watchers.set(id, watcher);
    watcher.start();
  }

  onListeningChanged(isListening: boolean): void {
    if (!isListening) for (const id of [...this.#watchers.keys()]) this.#end(id);
  }

  #notify(id: string): boolean {
    const record = this.#options.tasks.get(id);
    if (!record) return true;
    const state = boundedState(stateOf(record), id);
    const params = translatedTask('legacy', state);
    const keepsUp = this.#channel.send(`{"jsonrpc":"2.0","method":"${TASK_STATUS_NOTIFICATION}","params":{${params}}}`);
    if (!keepsUp) this.#channel.onDrain(() => this.#watchers.get(id)?.resume());
    if (isTerminal(state.status)) this.#end(id);
    return keepsUp;
  }

  #end(id: string): void {
    this.#watchers.get(id)?.close();
    this.#watchers.delete(id);
    if (this.#watchers.size > 0) return;
    this.#channel.removeListener(this);
    this.#onUnused();
  }
}

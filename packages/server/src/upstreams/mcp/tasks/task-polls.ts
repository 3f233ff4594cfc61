import { INVALID_PARAMS } from '@sluice/protocol/mcp/constants';
import { isTerminal, TASK_NOTIFICATION } from '@sluice/protocol/mcp/tasks';
import type { TaskReading } from './core-task-requests.ts';
import { MIN_POLL_MS, pollDelayMs } from './polled-task.ts';
import { stateOf, type TaskRecord } from './task-record.ts';
import type { Tasks } from './tasks.ts';

/** Reads the state of a core task; the headers are those of the client. Undefined if its upstream is gone. */
export type ReadTask = (record: TaskRecord, headers: readonly string[]) => Promise<TaskReading | undefined>;

/** Members of {@link Tasks} that polls use. */
type PolledTasks = Pick<Tasks, 'get' | 'onChange' | 'pollTurn'>;

/** A client that watches a core task. */
export interface TaskPollClient {
  /** Whether the client gets notifications at present. */
  isReported(): boolean;
  /** The client gets this notification. */
  onChanged(notification: string): void;
}

/**
 * Polls core tasks until they have ended, and notifies their clients of what is new. Clients whose requests have the same
 * headers upstream share one poll of a task.
 */
export class TaskPolls {
  readonly #tasks: PolledTasks;
  readonly #read: ReadTask;
  readonly #polls = new Map<string, TaskPoll>();

  constructor(tasks: PolledTasks, read: ReadTask) {
    this.#tasks = tasks;
    this.#read = read;
  }

  /** Polls a task for a client. Returns the function that ends that. */
  watch(record: TaskRecord, headers: readonly string[], client: TaskPollClient): () => void {
    const key = JSON.stringify([record.id, headers]);
    const poll = this.#polls.getOrInsertComputed(key, () => {
      const read = () => this.#read(record, headers);
      return new TaskPoll(this.#tasks, record, read, () => this.#polls.delete(key));
    });
    return poll.add(client);
  }
}

class TaskPoll {
  readonly #tasks: PolledTasks;
  readonly #record: TaskRecord;
  readonly #read: () => Promise<TaskReading | undefined>;
  readonly #onClosed: () => void;
  readonly #stopListening: () => void;
  /** What each client knows. */
  readonly #reported = new Map<TaskPollClient, string>();
  #timer: NodeJS.Timeout | undefined = undefined;
  #readAt = Number.NEGATIVE_INFINITY;
  #isReading = false;
  #isClosed = false;

  constructor(
    tasks: PolledTasks,
    record: TaskRecord,
    read: () => Promise<TaskReading | undefined>,
    onClosed: () => void,
  ) {
    this.#tasks = tasks;
    this.#record = record;
    this.#read = read;
    this.#onClosed = onClosed;
    this.#stopListening = tasks.onChange(record, () => this.#schedule(0));
  }

  add(client: TaskPollClient): () => void {
    this.#reported.set(client, stateKey('working', this.#record.statusMessage, ''));
    this.#schedule(0);
    return () => {
      this.#reported.delete(client);
      if (this.#reported.size === 0) this.#close();
    };
  }

  #close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#stopListening();
    this.#onClosed();
  }

  /** Schedules the next read, whatever it is for: an upstream may report another state each time. */
  #schedule(ms: number): void {
    // What this read reports is no reason for another one.
    if (this.#isReading || this.#isClosed) return;
    clearTimeout(this.#timer);
    const earliest = this.#readAt + MIN_POLL_MS - performance.now();
    this.#timer = setTimeout(() => this.#poll(), Math.max(ms, earliest)).unref();
  }

  async #poll(): Promise<void> {
    this.#isReading = true;
    this.#readAt = performance.now();
    // A request that gets no turn or fails is repeated.
    const isTurn = await this.#tasks.pollTurn({ id: this.#record.id });
    // Also if the database cannot be reached.
    const reading = isTurn && !this.#isClosed ? await this.#read().catch(() => 'failed' as const) : 'failed';
    this.#isReading = false;
    if (this.#isClosed) return;
    if (reading === 'failed') return this.#schedule(pollDelayMs(stateOf(this.#record)));
    if (!reading || (reading.kind === 'error' && reading.error.code === INVALID_PARAMS)) return this.#close();
    if (reading.kind === 'task') this.#report(reading);
    const state = reading.kind === 'task' ? reading.state : stateOf(this.#record);
    if (isTerminal(state.status)) this.#close();
    else this.#schedule(pollDelayMs(state));
  }

  #report({ state: { status, statusMessage }, members }: TaskReading & { kind: 'task' }): void {
    const { questions = [] } = this.#tasks.get(this.#record.id) ?? this.#record;
    const key = stateKey(status, statusMessage, questions.map((question) => question.key).join());
    for (const [client, known] of this.#reported) {
      if (key === known || !client.isReported()) continue;
      this.#reported.set(client, key);
      client.onChanged(`{"jsonrpc":"2.0","method":"${TASK_NOTIFICATION}","params":{${members}}}`);
    }
  }
}

function stateKey(...parts: readonly (string | undefined)[]): string {
  return JSON.stringify(parts);
}

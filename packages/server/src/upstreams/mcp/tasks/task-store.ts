import { Emitter } from '@sluice/protocol/emitter';
import { isTerminal } from '@sluice/protocol/mcp/tasks';
import { type ChangedRecord, Collection } from '../../../registry/store/collection.ts';
import type { RecordLog } from '../../../registry/store/record-log.ts';
import { recordSchema, type TaskChange, type TaskRecord } from './task-record.ts';

/** What {@link LogTaskStore} is for its users. */
export type TaskStore = Pick<LogTaskStore, 'isDurable' | 'load' | 'put' | 'change' | 'remove' | 'close'> &
  Partial<Pick<LogTaskStore, 'changed' | 'refresh'>>;

/** Task records in a log, by their ids. Every promise resolves once its change is durable, and rejects with `StoreError`. */
export class LogTaskStore {
  /** Whether the records outlive the process. */
  readonly isDurable: boolean;
  /** Another replica has stored, changed or removed a record. */
  readonly changed = new Emitter<ChangedRecord<TaskRecord>>();
  /** Brings the records up to date with other replicas; undefined without any. */
  readonly refresh?: () => Promise<void>;
  readonly #log: RecordLog;
  readonly #tasks = new Collection<TaskRecord>({
    name: 'tasks',
    schema: recordSchema,
    expires: ({ expires }) => expires,
  });

  constructor(log: RecordLog) {
    this.#log = log;
    this.isDurable = log.isDurable;
    if (log.isShared) this.refresh = () => log.refresh();
  }

  /** Returns the stored records. Called once, before anything else. */
  async load(): Promise<readonly TaskRecord[]> {
    await this.#tasks.open(this.#log);
    this.#tasks.changed.subscribe((change) => change.isForeign && this.changed.emit(change));
    return Array.from(this.#tasks.entries(), ([, record]) => record);
  }

  put(record: TaskRecord): Promise<void> {
    return this.#tasks.put(record.id, record);
  }

  /** Changes members of a record, unless it is not stored any more. */
  change(id: string, change: TaskChange): Promise<void> {
    return this.#tasks.update(id, (before) => {
      if (!before) return undefined;
      const { status = before.status } = change;
      // Another replica knows more: a status that is terminal never changes.
      return isTerminal(before.status) && status !== before.status ? undefined : { ...before, ...change };
    });
  }

  remove(id: string): Promise<void> {
    return this.#tasks.remove(id);
  }

  close(): Promise<void> {
    return this.#tasks.close();
  }
}

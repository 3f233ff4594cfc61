import { Emitter } from '@sluice/protocol/emitter';
import { isTerminal } from '@sluice/protocol/mcp/tasks';
import { type ChangedRecord, Collection } from '../../../registry/store/collection.ts';
import type { RecordLog } from '../../../registry/store/record-log.ts';
import { recordSchema, type TaskChange, type TaskRecord, type TaskStore } from './task-record.ts';

/** Task records in a log. */
export class LogTaskStore implements TaskStore {
  readonly isDurable: boolean;
  readonly changed = new Emitter<ChangedRecord<TaskRecord>>();
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

  async load(): Promise<readonly TaskRecord[]> {
    await this.#tasks.open(this.#log);
    this.#tasks.changed.subscribe((change) => change.isForeign && this.changed.emit(change));
    return Array.from(this.#tasks.entries(), ([, record]) => record);
  }

  put(record: TaskRecord): Promise<void> {
    return this.#tasks.put(record.id, record);
  }

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

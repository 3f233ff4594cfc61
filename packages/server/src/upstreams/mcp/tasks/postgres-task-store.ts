import type { SharedLog } from '../../../registry/store/postgres/shared-log.ts';
import { SharedRecords } from '../../../registry/store/postgres/shared-records.ts';
import type { Commit } from '../../../registry/store/store.ts';
import { recordSchema, type TaskChange, type TaskRecord, type TaskStore } from './task-record.ts';

const SECTION = 'tasks';

/** Task records that replicas share (docs/replicas.md). */
export class PostgresTaskStore extends SharedRecords<TaskRecord> implements TaskStore {
  readonly isDurable = true;
  readonly #log: SharedLog;

  constructor(log: SharedLog) {
    super(log, SECTION, (json) => recordSchema.parse(JSON.parse(json)));
    this.#log = log;
  }

  async load(): Promise<readonly TaskRecord[]> {
    await this.#log.add(this);
    return Array.from(this.entries(), ([, record]) => record);
  }

  async put(record: TaskRecord): Promise<void> {
    await this.#commit(record.id, () => record);
  }

  async change(id: string, change: TaskChange): Promise<void> {
    await this.#commit(id, (before) => before && { ...before, ...change });
  }

  async remove(id: string): Promise<void> {
    const publish = () => void this.records.delete(id);
    await this.#log.commit({ changes: [{ op: 'remove', section: SECTION, id }], publish });
  }

  async refresh(): Promise<void> {
    await this.#log.refresh();
  }

  /** The log is closed by its owner. */
  async close(): Promise<void> {}

  /** Stores what `make` returns, unless that is undefined; it is called again if another replica has changed the record. */
  async #commit(id: string, make: (before: TaskRecord | undefined) => TaskRecord | undefined): Promise<void> {
    let before = this.records.get(id);
    const commit = (): Commit => {
      before = this.records.get(id);
      const record = make(before);
      if (!record) return { changes: [], publish: () => undefined };
      const { expires } = record;
      const json = JSON.stringify(record);
      return {
        changes: [{ op: 'put', section: SECTION, id, json, expires }],
        publish: () => void this.records.set(id, record),
      };
    };
    await this.#log.update(commit, () => this.records.get(id) !== before);
  }
}

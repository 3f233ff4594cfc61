import { Emitter } from '@sluice/protocol/emitter';
import type { StoredChange, StoredRecord } from '../../../registry/store/postgres/records.ts';
import type { Follower, SharedLog } from '../../../registry/store/postgres/shared-log.ts';
import type { Commit } from '../../../registry/store/store.ts';
import type { ForeignTask, TaskStore } from './task-record.ts';
import { recordSchema, type TaskChange, type TaskRecord } from './task-record.ts';

const SECTION = 'tasks';

/** Task records that replicas share (docs/replicas.md). */
export class PostgresTaskStore implements TaskStore, Follower {
  readonly isDurable = true;
  readonly sections = [SECTION];
  readonly changed = new Emitter<ForeignTask>();
  readonly #log: SharedLog;
  readonly #records = new Map<string, TaskRecord>();

  constructor(log: SharedLog) {
    this.#log = log;
  }

  async load(): Promise<readonly TaskRecord[]> {
    await this.#log.add(this);
    return [...this.#records.values()];
  }

  async put(record: TaskRecord): Promise<void> {
    await this.#commit(record.id, () => record);
  }

  async change(id: string, change: TaskChange): Promise<void> {
    await this.#commit(id, (before) => before && { ...before, ...change });
  }

  async remove(id: string): Promise<void> {
    const publish = () => void this.#records.delete(id);
    await this.#log.commit({ changes: [{ op: 'remove', section: SECTION, id, promoted: undefined }], publish });
  }

  async refresh(): Promise<void> {
    await this.#log.refresh();
  }

  async apply(changes: readonly StoredChange[]): Promise<void> {
    for (const { id, json } of changes) {
      const record = json === null ? undefined : this.#log.readRecord(SECTION, json, readTaskRecord);
      if (record) this.#records.set(id, record);
      else this.#records.delete(id);
      this.changed.emit({ id, record });
    }
  }

  async reload(records: ReadonlyMap<string, readonly StoredRecord[]>): Promise<void> {
    const current = records.get(SECTION) ?? [];
    const known = new Set(current.map(({ id }) => id));
    const gone = [...this.#records.keys()].filter((id) => !known.has(id));
    await this.apply(gone.map((id) => ({ section: SECTION, id, json: null })));
    await this.apply(current.map(({ id, json }) => ({ section: SECTION, id, json })));
  }

  /** The log is closed by its owner. */
  async close(): Promise<void> {}

  /** Stores what `make` returns, unless that is undefined; it is called again if another replica has changed the record. */
  async #commit(id: string, make: (before: TaskRecord | undefined) => TaskRecord | undefined): Promise<void> {
    let before = this.#records.get(id);
    const commit = (): Commit => {
      before = this.#records.get(id);
      const record = make(before);
      if (!record) return { changes: [], publish: () => undefined };
      const { expires } = record;
      const json = JSON.stringify(record);
      return {
        changes: [{ op: 'put', section: SECTION, id, json, isShadowed: false, expires }],
        publish: () => void this.#records.set(id, record),
      };
    };
    const first = commit();
    if (first.changes.length === 0) return;
    await this.#log.commit(first, {
      isOutdated: () => this.#records.get(id) !== before,
      remake: async () => commit(),
    });
  }
}

function readTaskRecord(json: string): TaskRecord {
  return recordSchema.parse(JSON.parse(json));
}

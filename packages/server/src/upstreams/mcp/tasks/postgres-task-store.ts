import { isTerminal } from '@sluice/protocol/mcp/tasks';
import type { SharedLog } from '../../../registry/store/postgres/shared-log.ts';
import { SharedRecords } from '../../../registry/store/postgres/shared-records.ts';
import { recordSchema, type TaskChange, type TaskRecord, type TaskStore } from './task-record.ts';

const SECTION = 'tasks';

/** Task records that replicas share (docs/replicas.md). */
export class PostgresTaskStore extends SharedRecords<TaskRecord> implements TaskStore {
  readonly isDurable = true;

  constructor(log: SharedLog) {
    super(log, SECTION, (json) => recordSchema.parse(JSON.parse(json)));
  }

  async load(): Promise<readonly TaskRecord[]> {
    await this.log.add(this);
    return Array.from(this.entries(), ([, record]) => record);
  }

  async put(record: TaskRecord): Promise<void> {
    await this.update(record.id, () => record, storedTask);
  }

  async change(id: string, change: TaskChange): Promise<void> {
    const changed = (before: TaskRecord) => {
      const { status = before.status } = change;
      // Another replica knows more: a status that is terminal never changes.
      return isTerminal(before.status) && status !== before.status ? undefined : { ...before, ...change };
    };
    await this.update(id, (before) => before && changed(before), storedTask);
  }

  async remove(id: string): Promise<void> {
    await this.update(id, () => null, storedTask);
  }

  async refresh(): Promise<void> {
    await this.log.refresh();
  }

  /** The log is closed by its owner. */
  async close(): Promise<void> {}
}

function storedTask(record: TaskRecord): { readonly json: string; readonly expires: number } {
  return { json: JSON.stringify(record), expires: record.expires };
}

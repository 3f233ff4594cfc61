import type { Emitter } from '@sluice/protocol/emitter';
import type { TaskChange, TaskRecord } from './task-record.ts';

/** The record that another replica has stored; undefined if it has removed it. */
export interface ForeignTask {
  readonly id: string;
  readonly record: TaskRecord | undefined;
}

/** Persistence of task records, by their ids. Every promise resolves once its change is durable. */
export interface TaskStore {
  /** Whether the records outlive the process. */
  readonly isDurable: boolean;
  /** Returns the stored records. Called once, before anything else. */
  load(): Promise<readonly TaskRecord[]>;
  /** Stores a new record. Rejects with `StoreError`. */
  put(record: TaskRecord): Promise<void>;
  /** Changes members of a record; one that is not stored any more is ignored. Rejects with `StoreError`. */
  change(id: string, change: TaskChange): Promise<void>;
  /** Removes a record, if it is stored. Rejects with `StoreError`. */
  remove(id: string): Promise<void>;
  /** Finishes pending writes. Throws `StoreError`. */
  close(): Promise<void>;
  /** Another replica has stored, changed or removed a record; undefined without other replicas. */
  readonly changed?: Emitter<ForeignTask>;
  /** Brings the records up to date with other replicas. Rejects with `StoreError`. */
  refresh?(): Promise<void>;
}

/** A store without persistence. */
export function memoryTaskStore(): TaskStore {
  return {
    isDurable: false,
    load: async () => [],
    put: async () => {},
    change: async () => {},
    remove: async () => {},
    close: async () => {},
  };
}

import { Emitter } from '@sluice/protocol/emitter';
import type { RecordedChange } from '../store.ts';
import type { StoredChange, StoredRecord } from './records.ts';
import type { Follower, SharedLog } from './shared-log.ts';

/** The JSON text of a record; undefined if it has been removed. */
export interface ChangedRecord {
  readonly id: string;
  readonly json: string | undefined;
}

/** Small settings that replicas share: JSON texts by id, of which the latest wins. */
export class SharedRecords implements Follower {
  readonly sections: readonly string[];
  /** Another replica has changed a record. */
  readonly changed = new Emitter<ChangedRecord>();
  readonly #log: SharedLog;
  readonly #section: string;
  readonly #records = new Map<string, string>();

  private constructor(log: SharedLog, section: string) {
    this.#log = log;
    this.#section = section;
    this.sections = [section];
  }

  /** Loads the records of a section. */
  static async open(log: SharedLog, section: string): Promise<SharedRecords> {
    const records = new SharedRecords(log, section);
    await log.add(records);
    return records;
  }

  entries(): Iterable<[id: string, json: string]> {
    return this.#records.entries();
  }

  /** Changes a record, or removes it without `json`; resolves once that is durable. */
  async set(id: string, json: string | undefined): Promise<void> {
    const section = this.#section;
    const change: RecordedChange =
      json === undefined
        ? { op: 'remove', section, id, promoted: undefined }
        : { op: 'put', section, id, json, isShadowed: false };
    await this.#log.commit({ changes: [change], publish: () => this.#put(id, json) });
  }

  /** See {@link SharedLog.confirm}. */
  confirm(): Promise<readonly string[]> {
    return this.#log.confirm();
  }

  async apply(changes: readonly StoredChange[]): Promise<void> {
    for (const { id, json } of changes) {
      this.#put(id, json ?? undefined);
      this.changed.emit({ id, json: json ?? undefined });
    }
  }

  async reload(records: ReadonlyMap<string, readonly StoredRecord[]>): Promise<void> {
    const current = new Map(records.get(this.#section)?.map(({ id, json }) => [id, json]));
    for (const id of [...this.#records.keys()].filter((known) => !current.has(known))) {
      await this.apply([{ section: this.#section, id, json: null }]);
    }
    await this.apply([...current].map(([id, json]) => ({ section: this.#section, id, json })));
  }

  #put(id: string, json: string | undefined): void {
    if (json === undefined) this.#records.delete(id);
    else this.#records.set(id, json);
  }
}

/**
 * Removes expired records from memory after as many changes as there are records: the scan then costs no more than the changes
 * before it.
 */
export class ExpiryScan {
  readonly #scan: () => number;
  #changesLeft = 0;

  /** `scan` removes the expired records, and returns the number of those that remain. */
  constructor(scan: () => number) {
    this.#scan = scan;
  }

  onChanges(count: number): void {
    this.#changesLeft -= count;
    if (this.#changesLeft <= 0) this.run();
  }

  run(): void {
    this.#changesLeft = this.#scan();
  }
}

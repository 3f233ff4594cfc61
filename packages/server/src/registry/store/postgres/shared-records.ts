import { Emitter } from '@sluice/protocol/emitter';
import type { RecordedChange, SharedRecord } from '../store.ts';
import { replacement, type StoredChange } from './records.ts';
import type { Follower, SharedLog } from './shared-log.ts';

/** A record; without content if it has been removed. */
export interface ChangedRecord<Content> {
  readonly id: string;
  readonly content: Content | undefined;
}

/** Records that replicas share: JSON texts by id, of which the latest wins. */
export class SharedRecords<Content> implements Follower {
  readonly sections: readonly string[];
  /** A record has changed, whichever replica has changed it. */
  readonly changed = new Emitter<ChangedRecord<Content>>();
  readonly #log: SharedLog;
  readonly #section: string;
  readonly #read: (json: string) => Content;
  protected readonly records = new Map<string, Content>();

  protected constructor(log: SharedLog, section: string, read: (json: string) => Content) {
    this.#log = log;
    this.#section = section;
    this.#read = read;
    this.sections = [section];
  }

  /** Loads the records of a section. Changes that `read` rejects are ignored. */
  static async open<Content>(
    log: SharedLog,
    section: string,
    read: (json: string) => Content,
  ): Promise<SharedRecords<Content>> {
    const records = new SharedRecords(log, section, read);
    await log.add(records);
    return records;
  }

  entries(): Iterable<[id: string, content: Content]> {
    return this.records.entries();
  }

  /** Changes a record, or removes it without `json`. Returns the ids of the replicas that may not have applied it. */
  async set(id: string, json: string | undefined): Promise<readonly string[]> {
    const section = this.#section;
    const change: RecordedChange =
      json === undefined ? { op: 'remove', section, id } : { op: 'put', section, id, json };
    await this.#log.commit({ changes: [change], publish: () => this.#put(id, json) });
    return await this.#log.confirm();
  }

  async apply(changes: readonly StoredChange[]): Promise<void> {
    for (const { id, json } of changes) this.#put(id, json ?? undefined);
  }

  async reload(records: ReadonlyMap<string, readonly SharedRecord[]>): Promise<void> {
    await this.apply(replacement(this.#section, this.records.keys(), records));
  }

  #put(id: string, json: string | undefined): void {
    const content = json === undefined ? undefined : this.#log.readRecord(this.#section, json, this.#read);
    if (content !== undefined) this.records.set(id, content);
    else if (json === undefined) this.records.delete(id);
    else return;
    this.changed.emit({ id, content });
  }
}

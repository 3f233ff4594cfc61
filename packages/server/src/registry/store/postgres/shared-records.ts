import { Emitter } from '@sluice/protocol/emitter';
import { replacement, type StoredChange } from '../record-log.ts';
import type { Commit, RecordedChange, RecordedPut, StoredRecords } from '../store.ts';
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
  protected readonly log: SharedLog;
  readonly #section: string;
  protected readonly read: (json: string) => Content | undefined;
  protected readonly records = new Map<string, Content>();

  protected constructor(log: SharedLog, section: string, read: (json: string) => Content | undefined) {
    this.log = log;
    this.#section = section;
    this.read = read;
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
    await this.log.commit({ changes: [change], publish: () => this.#put(id, json) });
    return await this.log.confirm();
  }

  /**
   * Stores what `make` returns: null removes the record, undefined changes nothing. It is called again if another replica has changed
   * the record. `stored`: its form in the database.
   */
  protected async update(
    id: string,
    make: (before: Content | undefined) => Content | null | undefined,
    stored: (content: Content) => Pick<RecordedPut, 'json' | 'expires'>,
  ): Promise<void> {
    let before: Content | undefined;
    const commit = (): Commit => {
      before = this.records.get(id);
      const content = make(before);
      if (content === undefined) return { changes: [], publish: () => undefined };
      if (content === null) {
        return { changes: [{ op: 'remove', section: this.#section, id }], publish: () => void this.records.delete(id) };
      }
      const put: RecordedPut = { op: 'put', section: this.#section, id, ...stored(content) };
      return { changes: [put], publish: () => void this.records.set(id, content) };
    };
    await this.log.update(commit, () => this.records.get(id) !== before);
  }

  async apply(changes: readonly StoredChange[]): Promise<void> {
    for (const { id, json } of changes) this.#put(id, json ?? undefined);
  }

  async reload(records: StoredRecords): Promise<void> {
    await this.apply(replacement(this.#section, this.records.keys(), records));
  }

  #put(id: string, json: string | undefined): void {
    const content = json === undefined ? undefined : this.log.readRecord(this.#section, json, this.read);
    if (content !== undefined) this.records.set(id, content);
    else if (json === undefined) this.records.delete(id);
    else return;
    this.changed.emit({ id, content });
  }
}

import { Emitter } from '@sluice/protocol/emitter';
import { tryParseJson } from '@sluice/protocol/json/parse';
import type { z } from 'zod';
import { mergePatch } from './merge-patch.ts';
import { type LogConsumer, type RecordLog, replacement } from './record-log.ts';
import type { Commit, RecordedChange, RecordedPut, StoredChange, StoredRecords } from './store.ts';

/** Where a {@link Collection} has its records in memory. */
export interface RecordTable<Content> {
  get(id: string): Content | undefined;
  entries(): Iterable<[id: string, content: Content]>;
  /** Replaces a record after a commit of this process; undefined removes it. */
  set(id: string, content: Content | undefined): void;
  /** As {@link set}, for a record that was loaded, or that another replica has changed. */
  follow(id: string, content: Content | undefined): void;
  /** Called before a change is stored; throws to reject it. */
  admit?(id: string, content: Content | undefined): void;
  /** Takes back {@link admit}: the record is unchanged. */
  restore?(id: string, content: Content | undefined): void;
  /** Removes expired records. `now`: epoch milliseconds. Returns the number of those that remain. */
  removeExpired(now: number): number;
}

/** A record that has changed. */
export interface ChangedRecord<Content> {
  readonly id: string;
  readonly before: Content | undefined;
  /** Undefined if it has been removed. */
  readonly content: Content | undefined;
  /** Whether another replica has changed it. */
  readonly isForeign: boolean;
}

/** What a {@link Collection} contains. */
export interface CollectionOptions<Content> {
  /** Name of its section in the log. */
  readonly name: string;
  /** Reads the JSON of a record. */
  readonly schema: z.ZodType<Content>;
  /** Returns the JSON of a record, if that is not its content. */
  readonly encode?: (content: Content) => object | string;
  /** When a record may be removed, in epoch milliseconds; undefined, and without this function: never. */
  readonly expires?: (content: Content) => number | undefined;
  readonly table?: RecordTable<Content>;
  /** Whether changes are acknowledged once all live replicas have them. */
  readonly isConfirmed?: boolean;
  /** Resolves when the changes so far are in effect, which other replicas wait for, too. */
  readonly settled?: () => Promise<unknown>;
  /** Epoch milliseconds; defaults to the system clock. */
  readonly now?: (() => number) | undefined;
}

/**
 * Makes a change: returns the new content, null to remove the record, undefined to change nothing. Throws to reject it. The same
 * content is stored as a whole.
 */
export type Update<Content> = (before: Content | undefined) => Content | null | undefined;

interface PendingUpdate<Content> {
  readonly id: string;
  readonly update: Update<Content>;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Records of one kind in a {@link RecordLog}, by id. Changes are visible once they are durable; one commit contains all that
 * wait, each made on the result of the one before. The same with every log.
 */
export class Collection<Content> implements LogConsumer {
  readonly sections: readonly string[];
  /** A record has changed, whichever process has changed it; not because it has expired. */
  readonly changed = new Emitter<ChangedRecord<Content>>();
  readonly #options: CollectionOptions<Content>;
  readonly #table: RecordTable<Content>;
  /** Changes until expired records are removed: as many as there are records, so that a scan costs no more than these. */
  #changesToScan = 0;
  #log: RecordLog | undefined;
  #waiting: PendingUpdate<Content>[] = [];
  #writing: Promise<void> | undefined;

  constructor(options: CollectionOptions<Content>) {
    this.#options = options;
    this.sections = [options.name];
    this.#table = options.table ?? new MapTable(options.expires);
  }

  async settled(): Promise<void> {
    await this.#options.settled?.();
  }

  /** Loads the records. Rejects with `StoreError`. */
  async open(log: RecordLog): Promise<void> {
    this.#log = log;
    await log.add(this);
  }

  get(id: string): Content | undefined {
    return this.#table.get(id);
  }

  entries(): Iterable<[id: string, content: Content]> {
    return this.#table.entries();
  }

  /** Stores a record. Resolves once it is durable and visible; rejects with `StoreError`. */
  put(id: string, content: Content): Promise<void> {
    return this.update(id, () => content);
  }

  /** Removes a record, as {@link put}. */
  remove(id: string): Promise<void> {
    return this.update(id, () => null);
  }

  /**
   * Changes a record; resolves once that is durable and visible. `update` is called asynchronously, and again if other replicas
   * have changed the record meanwhile. Rejects with its error, or with `StoreError`; then nothing has changed.
   */
  update(id: string, update: Update<Content>): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ id, update, resolve, reject });
      this.#writing ??= this.#write();
    });
  }

  /** Waits until all live replicas have its changes. Returns the ids of those that may not. */
  async confirm(): Promise<readonly string[]> {
    return (await this.#log?.confirm()) ?? [];
  }

  /** Finishes pending changes. The log is closed by its owner. */
  async close(): Promise<void> {
    await this.#writing;
  }

  async apply(changes: readonly StoredChange[]): Promise<void> {
    for (const { section, id, json } of changes) {
      const content = json === null ? undefined : this.#log?.readRecord(section, json, (text) => this.#read(id, text));
      if (json !== null && content === undefined) continue;
      const before = this.#table.get(id);
      this.#table.follow(id, content);
      this.changed.emit({ id, before, content, isForeign: true });
    }
    this.#removeExpired(changes.length);
  }

  async reload(records: StoredRecords): Promise<void> {
    const known = Array.from(this.#table.entries(), ([id]) => id);
    await this.apply(replacement(this.#options.name, known, records));
  }

  records(): Iterable<RecordedPut> {
    this.#removeExpired();
    const records = [...this.#table.entries()];
    return { [Symbol.iterator]: () => records.values().map(([id, content]) => this.#putOf(id, undefined, content)) };
  }

  async #write(): Promise<void> {
    // All changes of this turn of the event loop share the first commit.
    await Promise.resolve();
    while (this.#waiting.length > 0) await this.#commit(this.#waiting.splice(0));
    this.#writing = undefined;
  }

  async #commit(updates: readonly PendingUpdate<Content>[]): Promise<void> {
    let batch = new Batch(this.#table, updates);
    const commit = (): Commit => ({
      changes: Array.from(batch.changed, ([id, { before, after }]) => this.#changeOf(id, before, after)),
      publish: () => this.#publish(batch),
    });
    const isOutdated = () => batch.changed.entries().some(([id, { before }]) => this.#table.get(id) !== before);
    const remake = async () => {
      batch.revert();
      batch = new Batch(this.#table, updates);
      return commit();
    };
    try {
      const first = commit();
      if (first.changes.length > 0) {
        if (!this.#log) throw new Error(`the collection ${this.#options.name} is not open`);
        await this.#log.commit(first, { isOutdated, remake });
        if (this.#options.isConfirmed) await this.confirm();
      }
      batch.settle();
    } catch (error) {
      batch.revert();
      batch.settle({ error });
    }
    this.#removeExpired(updates.length);
  }

  /** Removes expired records from memory; after so many changes, only when it is time for that. */
  #removeExpired(changes = Number.POSITIVE_INFINITY): void {
    this.#changesToScan -= changes;
    if (this.#changesToScan > 0) return;
    const { now = Date.now } = this.#options;
    this.#changesToScan = this.#table.removeExpired(now());
  }

  #publish(batch: Batch<Content>): void {
    for (const [id, { before, after }] of batch.changed) {
      this.#table.set(id, after);
      this.changed.emit({ id, before, content: after, isForeign: false });
    }
  }

  #changeOf(id: string, before: Content | undefined, after: Content | undefined): RecordedChange {
    if (after === undefined) return { section: this.#options.name, id, json: null };
    return this.#putOf(id, before, after);
  }

  #putOf(id: string, before: Content | undefined, after: Content): RecordedPut {
    const { name, encode = (content: Content) => content, expires } = this.#options;
    const value = encode(after);
    return {
      section: name,
      id,
      json: JSON.stringify(value),
      expires: expires?.(after),
      patch: () => {
        // A snapshot that was taken meanwhile lacks a record that had expired.
        const isStored = before !== undefined && this.#table.get(id) === before;
        const old = isStored && before !== after ? encode(before) : undefined;
        return isObject(old) && isObject(value) ? mergePatch(old, value) : undefined;
      },
    };
  }

  #read(id: string, json: string): Content {
    const value = tryParseJson(json);
    if (value === undefined) throw new Error(`${JSON.stringify(id)} is not valid JSON`);
    const { success, data, error } = this.#options.schema.safeParse(value);
    if (success) return data;
    const [issue] = error.issues;
    throw new Error(`${[JSON.stringify(id), ...(issue?.path ?? [])].join('.')}: ${issue?.message}`);
  }
}

class MapTable<Content> implements RecordTable<Content> {
  readonly #records = new Map<string, Content>();
  readonly #expires: CollectionOptions<Content>['expires'];

  constructor(expires: CollectionOptions<Content>['expires']) {
    this.#expires = expires;
  }

  get(id: string): Content | undefined {
    return this.#records.get(id);
  }

  entries(): Iterable<[id: string, content: Content]> {
    return this.#records.entries();
  }

  set(id: string, content: Content | undefined): void {
    if (content === undefined) this.#records.delete(id);
    else this.#records.set(id, content);
  }

  follow(id: string, content: Content | undefined): void {
    this.set(id, content);
  }

  removeExpired(now: number): number {
    const expires = this.#expires;
    if (!expires) return this.#records.size;
    for (const [id, content] of this.#records) {
      if ((expires(content) ?? Number.POSITIVE_INFINITY) <= now) this.#records.delete(id);
    }
    return this.#records.size;
  }
}

/** Updates that are stored together, each made on the result of the one before, and not visible yet. */
class Batch<Content> {
  /** The records before and after all updates. */
  readonly changed = new Map<string, { readonly before: Content | undefined; readonly after: Content | undefined }>();
  readonly #table: RecordTable<Content>;
  readonly #updates: readonly PendingUpdate<Content>[];
  /** Why updates were rejected. */
  readonly #rejected = new Map<PendingUpdate<Content>, { readonly error: unknown }>();

  constructor(table: RecordTable<Content>, updates: readonly PendingUpdate<Content>[]) {
    this.#table = table;
    this.#updates = updates;
    for (const each of updates) this.#make(each);
  }

  /** Takes back that the table has admitted the changes. */
  revert(): void {
    for (const id of this.changed.keys()) this.#table.restore?.(id, this.#table.get(id));
  }

  /** Settles the promises of the updates; `failure`: they could not be stored. */
  settle(failure?: { readonly error: unknown }): void {
    for (const each of this.#updates) {
      const rejection = this.#rejected.get(each) ?? failure;
      if (rejection) each.reject(rejection.error);
      else each.resolve();
    }
  }

  #make(pending: PendingUpdate<Content>): void {
    const { id, update } = pending;
    const made = this.changed.get(id);
    const current = made ? made.after : this.#table.get(id);
    try {
      const result = update(current);
      if (result === undefined) return;
      const after = result ?? undefined;
      this.#table.admit?.(id, after);
      this.changed.set(id, { before: made ? made.before : current, after });
    } catch (error) {
      this.#table.restore?.(id, current);
      this.#rejected.set(pending, { error });
    }
  }
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

import type { StoredChange, StoredRecord } from '../registry/store/postgres/records.ts';
import type { Follower, SharedLog } from '../registry/store/postgres/shared-log.ts';
import type { RecordedChange, RecordedPut } from '../registry/store/store.ts';
import { OutdatedRevisionsError, parseRevisions, type RevisionStore } from './revision-store.ts';
import { NO_REVISIONS, type Revisions, serializeRevision } from './revisions.ts';

const SECTION = 'evaluator_revisions';
/** Record with the members that no revision has. */
const STATE = 'state';

/** Revisions of evaluators that replicas share (docs/replicas.md): one record each, and one with the active one. */
export class PostgresRevisionStore implements RevisionStore, Follower {
  readonly sections = [SECTION];
  onNewer: ((revisions: Revisions) => Promise<void>) | undefined = undefined;
  #settled: Promise<void> | undefined;
  readonly #log: SharedLog;
  #records = new Map<string, string>();
  #saved: Revisions = NO_REVISIONS;

  constructor(log: SharedLog) {
    this.#log = log;
  }

  async load(): Promise<Revisions> {
    await this.#log.add(this);
    return this.#saved;
  }

  async save(revisions: Revisions): Promise<void> {
    const base = this.#saved;
    const records = recordsOf(revisions);
    const publish = () => {
      this.#records = records;
      this.#saved = revisions;
    };
    await this.#log.commit(
      { changes: differences(this.#records, records), publish },
      {
        isOutdated: () => this.#saved !== base,
        remake: () => Promise.reject(new OutdatedRevisionsError(this.#saved)),
      },
    );
  }

  async apply(changes: readonly StoredChange[]): Promise<void> {
    for (const { id, json } of changes) {
      if (json === null) this.#records.delete(id);
      else this.#records.set(id, json);
    }
    this.#read();
    this.#settled = this.onNewer?.(this.#saved);
  }

  async reload(records: ReadonlyMap<string, readonly StoredRecord[]>): Promise<void> {
    this.#records = new Map(records.get(SECTION)?.map(({ id, json }) => [id, json]));
    this.#read();
    this.#settled = this.onNewer?.(this.#saved);
  }

  async settled(): Promise<void> {
    await this.#settled;
  }

  #read(): void {
    const { [STATE]: state, ...revisions } = Object.fromEntries(this.#records);
    if (state === undefined) return;
    const list = Object.values(revisions).join(',');
    this.#saved = parseRevisions(SECTION, Buffer.from(`{"revisions":[${list}],${state.slice(1)}`));
  }
}

/** The records of revisions, for a database that has none. */
export function revisionRecords(revisions: Revisions): RecordedPut[] {
  return Array.from(recordsOf(revisions), ([id, json]) => putOf(id, json));
}

function putOf(id: string, json: string): RecordedPut {
  return { op: 'put', section: SECTION, id, json, isShadowed: false };
}

/** The records of revisions, the oldest first: numeric keys of an object are in ascending order. */
function recordsOf({ list, activeId, nextId }: Revisions): Map<string, string> {
  const records = new Map(list.map((revision) => [String(revision.id), serializeRevision(revision)]));
  return records.set(STATE, JSON.stringify({ active_id: activeId ?? null, next_id: nextId }));
}

function differences(before: ReadonlyMap<string, string>, after: ReadonlyMap<string, string>): RecordedChange[] {
  const changes: RecordedChange[] = [];
  for (const id of before.keys()) {
    if (!after.has(id)) changes.push({ op: 'remove', section: SECTION, id, promoted: undefined });
  }
  for (const [id, json] of after) {
    if (before.get(id) !== json) changes.push(putOf(id, json));
  }
  return changes;
}

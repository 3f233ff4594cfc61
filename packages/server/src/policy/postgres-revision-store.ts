import { Emitter } from '@sluice/protocol/emitter';
import { z } from 'zod';
import { readComponent, removeComponents, storeComponent } from '../registry/store/postgres/components.ts';
import { replacement, type StoredChange } from '../registry/store/postgres/records.ts';
import type { Follower, SharedLog } from '../registry/store/postgres/shared-log.ts';
import type { RecordedChange, RecordedPut, SharedRecord } from '../registry/store/store.ts';
import {
  type NewerRevisions,
  OutdatedRevisionsError,
  parseRevisions,
  type RevisionStore,
  type SharedActions,
} from './revision-store.ts';
import { NO_REVISIONS, type Revisions, serializeRevision } from './revisions.ts';

const SECTION = 'evaluator_revisions';
/** Record with the members that no revision has. */
const STATE = 'state';
/** Checksums of the actions of revisions, by the id of the revision. */
const ACTIONS = 'evaluator_actions';

const checksums = z.record(z.string(), z.string());

/** Revisions of evaluators that replicas share (docs/replicas.md): one record each, and one with the active one. */
export class PostgresRevisionStore implements RevisionStore, Follower {
  readonly sections = [ACTIONS, SECTION] as const;
  readonly actions: SharedActions;
  readonly newer = new Emitter<NewerRevisions>();
  #settled: Promise<unknown> | undefined;
  readonly #log: SharedLog;
  #records: Records = emptyRecords();
  #saved: Revisions = NO_REVISIONS;

  constructor(log: SharedLog) {
    this.#log = log;
    const { database } = log;
    this.actions = {
      of: (revision) => this.#actionsOf(String(revision)),
      read: (checksum) => readComponent(database, checksum),
      store: (checksum, component) => storeComponent(database, checksum, component),
    };
  }

  async load(): Promise<Revisions> {
    await this.#log.add(this);
    return this.#saved;
  }

  async save(revisions: Revisions, components?: ReadonlyMap<string, string>): Promise<void> {
    const base = this.#saved;
    const before = this.#records;
    const records = { [SECTION]: recordsOf(revisions), [ACTIONS]: new Map(before[ACTIONS]) };
    const { activeId } = revisions;
    if (components && activeId !== undefined) {
      records[ACTIONS].set(String(activeId), JSON.stringify(Object.fromEntries(components)));
    }
    for (const id of before[ACTIONS].keys()) if (!records[SECTION].has(id)) records[ACTIONS].delete(id);
    const changes = this.sections.flatMap((section) => differences(section, before[section], records[section]));
    const publish = () => {
      this.#records = records;
      this.#saved = revisions;
    };
    const isOutdated = () => this.#saved !== base;
    const remake = () => Promise.reject(new OutdatedRevisionsError(this.#saved));
    await this.#log.commit({ changes, publish }, { isOutdated, remake });
    void removeComponents(this.#log.database, this.#checksums()).catch(() => undefined);
  }

  confirm(): Promise<readonly string[]> {
    return this.#log.confirm();
  }

  async apply(changes: readonly StoredChange[]): Promise<void> {
    for (const { section, id, json } of changes) {
      const records = this.#records[section === ACTIONS ? ACTIONS : SECTION];
      if (json === null) records.delete(id);
      else records.set(id, json);
    }
    this.#read();
    const pending: Promise<unknown>[] = [];
    this.newer.emit({ revisions: this.#saved, waitUntil: (inEffect) => pending.push(inEffect) });
    this.#settled = Promise.all(pending);
  }

  async reload(stored: ReadonlyMap<string, readonly SharedRecord[]>): Promise<void> {
    this.#records = emptyRecords();
    await this.apply(this.sections.flatMap((section) => replacement(section, [], stored)));
  }

  async settled(): Promise<void> {
    await this.#settled;
  }

  #read(): void {
    const { [STATE]: state, ...revisions } = Object.fromEntries(this.#records[SECTION]);
    if (state === undefined) return;
    const list = Object.values(revisions).join(',');
    this.#saved = parseRevisions(SECTION, Buffer.from(`{"revisions":[${list}],${state.slice(1)}`));
  }

  #actionsOf(revision: string): ReadonlyMap<string, string> | undefined {
    const json = this.#records[ACTIONS].get(revision);
    return json === undefined ? undefined : new Map(Object.entries(checksums.parse(JSON.parse(json))));
  }

  /** All checksums that a revision has. */
  #checksums(): string[] {
    return [...this.#records[ACTIONS].keys()].flatMap((revision) => [...(this.#actionsOf(revision)?.values() ?? [])]);
  }
}

/** JSON texts by section and id. */
type Records = Readonly<Record<typeof SECTION | typeof ACTIONS, Map<string, string>>>;

function emptyRecords(): Records {
  return { [SECTION]: new Map(), [ACTIONS]: new Map() };
}

/** The records of revisions, for a database that has none. */
export function revisionRecords(revisions: Revisions): RecordedPut[] {
  return Array.from(recordsOf(revisions), ([id, json]) => ({ op: 'put', section: SECTION, id, json }));
}

/** The records of revisions, the oldest first: numeric keys of an object are in ascending order. */
function recordsOf({ list, activeId, nextId }: Revisions): Map<string, string> {
  const records = new Map(list.map((revision) => [String(revision.id), serializeRevision(revision)]));
  return records.set(STATE, JSON.stringify({ active_id: activeId ?? null, next_id: nextId }));
}

function differences(
  section: string,
  before: ReadonlyMap<string, string>,
  after: ReadonlyMap<string, string>,
): RecordedChange[] {
  const changes: RecordedChange[] = [];
  for (const id of before.keys()) if (!after.has(id)) changes.push({ op: 'remove', section, id });
  for (const [id, json] of after) if (before.get(id) !== json) changes.push({ op: 'put', section, id, json });
  return changes;
}

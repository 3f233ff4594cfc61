import { evaluatorRevisionContent, validate } from '@sluice/contract';
import { Emitter } from '@sluice/protocol/emitter';
import { parseLossless } from '@sluice/protocol/json/parse';
import { z } from 'zod';
import { type LogConsumer, type RecordLog, replacement } from '../registry/store/record-log.ts';
import {
  ReadOnlyStoreError,
  type RecordedChange,
  type RecordedPut,
  type StoredChange,
  type StoredRecords,
} from '../registry/store/store.ts';
import type { SharedComponents } from './action-loader.ts';
import { NO_REVISIONS, type Revision, type Revisions, serializeRevision } from './revisions.ts';

/** Revisions of another replica. */
export interface NewerRevisions {
  readonly revisions: Revisions;
  /** Called by subscribers: this replica confirms the revisions once the promise, which never rejects, has resolved. */
  waitUntil(inEffect: Promise<unknown>): void;
}

/** Persists revisions. */
export interface RevisionStore {
  /** Called once, before `save`. Throws `StoreError`. */
  load(): Promise<Revisions>;
  /**
   * Resolves when the revisions are durable. Throws `StoreError`: the previous ones remain stored, and
   * {@link OutdatedRevisionsError}. `components`: checksums of the actions of the active revision by path, for other replicas.
   */
  save(revisions: Revisions, components?: ReadonlyMap<string, string>): Promise<void>;
  /** See `RecordLog.confirm`. */
  confirm?(): Promise<readonly string[]>;
  /** What replicas share of actions; undefined for a single one. */
  readonly actions?: SharedActions | undefined;
  /** Another replica has changed the revisions. */
  readonly newer?: Emitter<NewerRevisions>;
}

/** Actions of revisions that replicas share. */
export interface SharedActions extends SharedComponents {
  /** Checksums of the components of a revision, by path; undefined if it was never loaded. */
  of(revision: number): ReadonlyMap<string, string> | undefined;
}

/** The components of actions in a database. */
export interface ComponentStore extends SharedComponents {
  /** Removes the components that have not been needed for a while, except those with these checksums. */
  removeUnused(except: readonly string[]): Promise<void>;
}

/** Another replica has stored revisions since these were read: make the change again on its ones. */
export class OutdatedRevisionsError extends Error {
  override readonly name = 'OutdatedRevisionsError';
  readonly revisions: Revisions;

  constructor(revisions: Revisions) {
    super('the evaluators were changed meanwhile');
    this.revisions = revisions;
  }
}

const UNREADABLE =
  'another replica has stored evaluators that this one cannot read: it has a later release, install that here too';

/** Section with one record for each revision, and one with the active one. */
const REVISIONS = 'evaluator_revisions';
/** Id of the record with the members that no revision has. */
const STATE = 'state';
/** Section with the checksums of the actions of revisions, by the id of the revision. */
const ACTIONS = 'evaluator_actions';

const checksums = z.record(z.string(), z.string());
const id = z.number().int().positive();
const stateSchema = z.object({ active_id: id.nullable(), next_id: id });

/** JSON texts by section and id. */
type Records = Readonly<Record<typeof REVISIONS | typeof ACTIONS, Map<string, string>>>;

/** Revisions of evaluators in a log. */
export class LogRevisionStore implements RevisionStore, LogConsumer {
  readonly sections = [ACTIONS, REVISIONS] as const;
  readonly actions: SharedActions | undefined;
  readonly newer = new Emitter<NewerRevisions>();
  readonly #log: RecordLog;
  readonly #components: ComponentStore | undefined;
  #records = emptyRecords();
  #saved: Revisions = NO_REVISIONS;
  #settled: Promise<unknown> | undefined;
  #isLoaded = false;
  /** Whether `#saved` are the revisions of the records. */
  #isReadable = true;

  /** `components`: those that replicas share. */
  constructor(log: RecordLog, components?: ComponentStore) {
    this.#log = log;
    this.#components = components;
    this.actions = components && { ...components, of: (revision) => this.#actionsOf(String(revision)) };
  }

  async load(): Promise<Revisions> {
    await this.#log.add(this);
    this.#isLoaded = true;
    return this.#saved;
  }

  async save(revisions: Revisions, components?: ReadonlyMap<string, string>): Promise<void> {
    if (!this.#isReadable) throw new ReadOnlyStoreError(UNREADABLE);
    const base = this.#saved;
    const before = this.#records;
    const records = { [REVISIONS]: recordsOf(revisions), [ACTIONS]: new Map(before[ACTIONS]) };
    const { activeId } = revisions;
    if (this.#components && components && activeId !== undefined) {
      records[ACTIONS].set(String(activeId), JSON.stringify(Object.fromEntries(components)));
    }
    for (const id of before[ACTIONS].keys()) if (!records[REVISIONS].has(id)) records[ACTIONS].delete(id);
    const changes = this.sections.flatMap((section) => differences(section, before[section], records[section]));
    const publish = () => {
      this.#records = records;
      this.#saved = revisions;
    };
    const isOutdated = () => this.#saved !== base;
    const remake = () => Promise.reject(new OutdatedRevisionsError(this.#saved));
    await this.#log.commit({ changes, publish }, { isOutdated, remake });
    this.#components?.removeUnused(this.#checksums()).catch(() => undefined);
  }

  confirm(): Promise<readonly string[]> {
    return this.#log.confirm();
  }

  async apply(changes: readonly StoredChange[]): Promise<void> {
    const { [REVISIONS]: revisions, [ACTIONS]: actions } = this.#records;
    this.#follow(changes, { [REVISIONS]: new Map(revisions), [ACTIONS]: new Map(actions) });
  }

  async reload(stored: StoredRecords): Promise<void> {
    this.#follow(
      this.sections.flatMap((section) => replacement(section, [], stored)),
      emptyRecords(),
    );
  }

  /**
   * Makes the changes to these records. With revisions that it cannot read, perhaps of a later release, this replica keeps the ones
   * that it has, and stores none; it does not start with them.
   */
  #follow(changes: readonly StoredChange[], records: Records): void {
    for (const { section, id, json } of changes) {
      const own = records[section === ACTIONS ? ACTIONS : REVISIONS];
      if (json === null) own.delete(id);
      else own.set(id, json);
    }
    const read = () => parseRevisions(records[REVISIONS]);
    const saved = this.#isLoaded ? this.#log.readRecord(REVISIONS, '', read) : read();
    this.#records = records;
    this.#isReadable = saved !== undefined;
    if (!saved) return;
    this.#saved = saved;
    const pending: Promise<unknown>[] = [];
    this.newer.emit({ revisions: saved, waitUntil: (inEffect) => pending.push(inEffect) });
    this.#settled = Promise.all(pending);
  }

  async settled(): Promise<void> {
    await this.#settled;
  }

  records(): Iterable<RecordedPut> {
    return this.sections.flatMap((section) => putsOf(section, this.#records[section]));
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

/** Reads the records of revisions. Throws if they are invalid. */
function parseRevisions(records: ReadonlyMap<string, string>): Revisions {
  const state = records.get(STATE);
  if (state === undefined) return NO_REVISIONS;
  const { active_id, next_id } = parseAs(stateSchema, STATE, state);
  const list = [...records].filter(([each]) => each !== STATE).map(([each, json]) => parseRevision(each, json));
  list.sort((one, other) => one.id - other.id);
  const problem = problemOf(list, active_id, next_id);
  if (problem !== undefined) throw new Error(problem);
  return { list, activeId: active_id ?? undefined, nextId: next_id };
}

function parseRevision(key: string, json: string): Revision {
  const { evaluators, ...metadata } = parseAs(evaluatorRevisionContent, key, json);
  if (String(metadata.id) !== key) throw new Error(`revision ${key} has another id`);
  return { ...metadata, evaluatorsJson: JSON.stringify(evaluators) };
}

/** What is inconsistent; undefined if nothing is. */
function problemOf(list: readonly Revision[], active: number | null, next: number): string | undefined {
  const wrong = list.find((revision) => (revision.status === 'active') !== (revision.id === active));
  if (wrong) return `active_id ${active} is not the only active revision`;
  if (active !== null && !list.some((revision) => revision.id === active)) return `active_id ${active} is no revision`;
  return next <= (list.at(-1)?.id ?? 0) ? 'next_id is not above the id of every revision' : undefined;
}

/** Parses a record. The errors quote nothing of it. */
function parseAs<T extends z.ZodType>(schema: T, key: string, json: string): z.output<T> {
  let value: unknown;
  try {
    value = parseLossless(json);
  } catch (error) {
    throw new Error(`revision ${key} is not valid JSON`, { cause: error });
  }
  const result = validate(schema, value);
  if ('value' in result) return result.value;
  const [first] = result.issues;
  throw new Error(`revision ${key} is not valid: ${first?.path} ${first?.message}`);
}

function emptyRecords(): Records {
  return { [REVISIONS]: new Map(), [ACTIONS]: new Map() };
}

function recordsOf({ list, activeId, nextId }: Revisions): Map<string, string> {
  const records = new Map(list.map((revision) => [String(revision.id), serializeRevision(revision)]));
  return records.set(STATE, JSON.stringify({ active_id: activeId ?? null, next_id: nextId }));
}

/** The records of revisions. */
export function revisionRecords(revisions: Revisions): RecordedPut[] {
  return putsOf(REVISIONS, recordsOf(revisions));
}

function putsOf(section: string, records: ReadonlyMap<string, string>): RecordedPut[] {
  return Array.from(records, ([id, json]) => ({ section, id, json }));
}

function differences(
  section: string,
  before: ReadonlyMap<string, string>,
  after: ReadonlyMap<string, string>,
): RecordedChange[] {
  const removed = before.keys().filter((id) => !after.has(id));
  return [
    ...removed.map((id) => ({ section, id, json: null }) as const),
    ...putsOf(section, after).filter(({ id, json }) => before.get(id) !== json),
  ];
}

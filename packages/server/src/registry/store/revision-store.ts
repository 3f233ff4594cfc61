import { revision, validate } from '@sluice/contract';
import { Emitter } from '@sluice/protocol/emitter';
import { parseLossless } from '@sluice/protocol/json/parse';
import { z } from 'zod';
import { type LogConsumer, type RecordLog, replacement } from './record-log.ts';
import { NO_REVISIONS, type Revision, type RevisionKind, type Revisions, serializeRevision } from './revisions.ts';
import {
  ReadOnlyStoreError,
  type RecordedChange,
  type RecordedPut,
  type StoredChange,
  type StoredRecords,
} from './store.ts';

/** Revisions of another replica. */
export interface NewerRevisions {
  /** Undefined if this replica cannot read them. */
  readonly revisions: Revisions | undefined;
  /** Called by subscribers: this replica confirms the revisions once the promise, which never rejects, has resolved. */
  waitUntil(inEffect: Promise<unknown>): void;
}

/** Persists revisions. */
export interface RevisionStore {
  /** Called once, before `save`. Throws `StoreError`. */
  load(): Promise<Revisions>;
  /**
   * Resolves when the revisions are durable. Throws `StoreError`: the previous ones remain stored, and
   * {@link OutdatedRevisionsError}. `components`: checksums of those of the active revision by path, for other replicas.
   */
  save(revisions: Revisions, components?: ReadonlyMap<string, string>): Promise<void>;
  /** See `RecordLog.confirm`. */
  confirm?(): Promise<readonly string[]>;
  /** The components that replicas share; undefined for a single one. */
  readonly components?: RevisionComponents | undefined;
  /** Another replica has changed the revisions. */
  readonly newer?: Emitter<NewerRevisions>;
}

/** The components that replicas share, by checksum. */
export interface SharedComponents {
  /** Undefined if there is none with this checksum. */
  read(checksum: string): Promise<Buffer | undefined>;
  store(checksum: string, component: Buffer): Promise<void>;
}

/** Components of revisions that replicas share. */
export interface RevisionComponents extends SharedComponents {
  /** Checksums of the components of a revision, by path; undefined if it was never loaded. */
  of(revision: number): ReadonlyMap<string, string> | undefined;
}

/** The components in a database. */
export interface ComponentStore extends SharedComponents {
  /** Removes the components that have not been needed for a while, except those with these checksums. */
  removeUnused(except: readonly string[]): Promise<void>;
}

/** Another replica has stored revisions since these were read: make the change again on its ones. */
export class OutdatedRevisionsError extends Error {
  override readonly name = 'OutdatedRevisionsError';
  readonly revisions: Revisions;

  constructor(revisions: Revisions) {
    super('the revisions were changed meanwhile');
    this.revisions = revisions;
  }
}

/** Id of the record with the members that no revision has. */
const STATE = 'state';
const checksums = z.record(z.string(), z.string());
const id = z.number().int().positive();
const stateSchema = z.object({ active_id: id.nullable(), next_id: id });

const metadataSchema = revision.extend({ skipped: z.array(z.string()).default([]) });

/** JSON texts by id: of the revisions, and of the checksums of their components. */
interface Records {
  readonly revisions: Map<string, string>;
  readonly components: Map<string, string>;
}

/** Revisions of one kind in a log. */
export class LogRevisionStore implements RevisionStore, LogConsumer {
  readonly sections: readonly string[];
  readonly isRequired: boolean;
  readonly components: RevisionComponents | undefined;
  readonly newer = new Emitter<NewerRevisions>();
  readonly #log: RecordLog;
  readonly #kind: RevisionKind<unknown>;
  readonly #components: ComponentStore | undefined;
  #records: Records = { revisions: new Map(), components: new Map() };
  #saved: Revisions = NO_REVISIONS;
  #settled: Promise<unknown> | undefined;
  #isLoaded = false;
  /** Whether `#saved` are the revisions of the records. */
  #isReadable = true;

  /** `components`: those that replicas share. */
  constructor(log: RecordLog, kind: RevisionKind<unknown>, components?: ComponentStore) {
    this.#log = log;
    this.#kind = kind;
    this.sections = [...(kind.components === undefined ? [] : [kind.components]), kind.section];
    this.isRequired = kind.isRequired ?? false;
    this.#components = components;
    this.components = components && { ...components, of: (id) => this.#componentsOf(String(id)) };
  }

  async load(): Promise<Revisions> {
    await this.#log.add(this);
    this.#isLoaded = true;
    return this.#saved;
  }

  async save(revisions: Revisions, components?: ReadonlyMap<string, string>): Promise<void> {
    if (!this.#isReadable) {
      const { what } = this.#kind;
      throw new ReadOnlyStoreError(
        `another replica has stored ${what} that this one cannot read: it has a later release, install that here too`,
      );
    }
    const base = this.#saved;
    const before = this.#records;
    const records = { revisions: recordsOf(revisions, this.#kind), components: new Map(before.components) };
    const { activeId } = revisions;
    if (this.#components && components && activeId !== undefined) {
      records.components.set(String(activeId), JSON.stringify(Object.fromEntries(components)));
    }
    for (const id of before.components.keys()) if (!records.revisions.has(id)) records.components.delete(id);
    const { section, components: componentSection = '' } = this.#kind;
    const changes = [
      ...differences(componentSection, before.components, records.components),
      ...differences(section, before.revisions, records.revisions),
    ];
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
    const { revisions, components } = this.#records;
    this.#follow(changes, { revisions: new Map(revisions), components: new Map(components) });
  }

  async reload(stored: StoredRecords): Promise<void> {
    this.#follow(
      this.sections.flatMap((section) => replacement(section, [], stored)),
      { revisions: new Map(), components: new Map() },
    );
  }

  /**
   * Makes the changes to these records. With revisions that it cannot read, perhaps of a later release, this replica keeps the ones
   * that it has, and stores none; it does not start with them.
   */
  #follow(changes: readonly StoredChange[], records: Records): void {
    for (const { section, id, json } of changes) {
      const own = section === this.#kind.section ? records.revisions : records.components;
      if (json === null) own.delete(id);
      else own.set(id, json);
    }
    const read = () => parseRevisions(records.revisions, this.#kind);
    const saved = this.#isLoaded ? this.#log.readRecord(this.#kind.section, '', read) : read();
    this.#records = records;
    this.#isReadable = saved !== undefined;
    if (saved) this.#saved = saved;
    const pending: Promise<unknown>[] = [];
    this.newer.emit({ revisions: saved, waitUntil: (inEffect) => pending.push(inEffect) });
    this.#settled = Promise.all(pending);
  }

  async settled(): Promise<void> {
    await this.#settled;
  }

  records(): Iterable<RecordedPut> {
    const { section, components = '' } = this.#kind;
    return [...putsOf(components, this.#records.components), ...putsOf(section, this.#records.revisions)];
  }

  #componentsOf(id: string): ReadonlyMap<string, string> | undefined {
    const json = this.#records.components.get(id);
    return json === undefined ? undefined : new Map(Object.entries(checksums.parse(JSON.parse(json))));
  }

  /** All checksums that a revision has. */
  #checksums(): string[] {
    return [...this.#records.components.keys()].flatMap((id) => [...(this.#componentsOf(id)?.values() ?? [])]);
  }
}

/** Reads the records of revisions. Throws if they are invalid. */
function parseRevisions(records: ReadonlyMap<string, string>, kind: RevisionKind<unknown>): Revisions {
  const state = records.get(STATE);
  if (state === undefined) return NO_REVISIONS;
  const { active_id, next_id } = requireValid(stateSchema, STATE, parse(STATE, state));
  const list = [...records].filter(([each]) => each !== STATE).map(([each, json]) => parseRevision(each, json, kind));
  list.sort((one, other) => one.id - other.id);
  const problem = problemOf(list, active_id, next_id);
  if (problem !== undefined) throw new Error(problem);
  return { list, activeId: active_id ?? undefined, nextId: next_id };
}

function parseRevision(key: string, json: string, { member, schema }: RevisionKind<unknown>): Revision {
  const value = parse(key, json);
  const metadata = requireValid(metadataSchema, key, value);
  const { [member]: content } = requireValid(z.looseObject({ [member]: schema }), key, value);
  if (String(metadata.id) !== key) throw new Error(`revision ${key} has another id`);
  return { ...metadata, contentJson: JSON.stringify(content) };
}

/** What is inconsistent; undefined if nothing is. */
function problemOf(list: readonly Revision[], active: number | null, next: number): string | undefined {
  const wrong = list.find((revision) => (revision.status === 'active') !== (revision.id === active));
  if (wrong) return `active_id ${active} is not the only active revision`;
  if (active !== null && !list.some((revision) => revision.id === active)) return `active_id ${active} is no revision`;
  return next <= (list.at(-1)?.id ?? 0) ? 'next_id is not above the id of every revision' : undefined;
}

function parse(key: string, json: string): unknown {
  try {
    return parseLossless(json);
  } catch (error) {
    throw new Error(`revision ${key} is not valid JSON`, { cause: error });
  }
}

/** Parses a part of a record. The errors quote nothing of it. */
function requireValid<T extends z.ZodType>(schema: T, key: string, value: unknown): z.output<T> {
  const result = validate(schema, value);
  if ('value' in result) return result.value;
  const [first] = result.issues;
  throw new Error(`revision ${key} is not valid: ${first?.path} ${first?.message}`);
}

function recordsOf({ list, activeId, nextId }: Revisions, kind: RevisionKind<unknown>): Map<string, string> {
  const records = new Map(list.map((revision) => [String(revision.id), serializeRevision(revision, kind)]));
  return records.set(STATE, JSON.stringify({ active_id: activeId ?? null, next_id: nextId }));
}

/** The records of revisions; none if there are none yet. */
export function revisionRecords(revisions: Revisions, kind: RevisionKind<unknown>): RecordedPut[] {
  return revisions === NO_REVISIONS ? [] : putsOf(kind.section, recordsOf(revisions, kind));
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

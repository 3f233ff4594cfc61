import { ExpiryScan } from '../../registry/store/expiry-scan.ts';
import { replacement, type StoredChange } from '../../registry/store/postgres/records.ts';
import type { Follower, SharedLog } from '../../registry/store/postgres/shared-log.ts';
import type { Commit, RecordedChange, RecordedPut, SharedRecord } from '../../registry/store/store.ts';
import type { ForgottenSessions } from './ended-sessions.ts';
import { forgottenSchema, type StoredSession, storedSession } from './session-state.ts';
import { ChangeBatch, type PendingChange, type SessionChange, SessionStore } from './session-store.ts';
import type { SessionStoreLimits } from './session-table.ts';

const SECTION = 'sessions';
/** Ends of sessions that are forgotten, by holder. */
const FORGOTTEN = 'forgotten_sessions';

/** Options of {@link PostgresSessionStore}. */
export interface PostgresSessionStoreOptions extends SessionStoreLimits {
  readonly log: SharedLog;
}

/** Sessions that replicas share (docs/replicas.md). One commit contains all changes that wait. */
export class PostgresSessionStore extends SessionStore implements Follower {
  readonly sections = [SECTION, FORGOTTEN];
  readonly #log: SharedLog;
  /** The records of {@link FORGOTTEN} by id. */
  readonly #forgotten = new Map<string, string>();
  /** Number of times that other replicas have changed them. */
  #forgottenVersion = 0;
  /** Sessions that were forgotten here, and are still stored. */
  readonly #excess = new Set<string>();
  readonly #expiry = new ExpiryScan(() => this.sessions.removeExpired(Date.now()));
  #queue: PendingChange[] = [];
  #writing: Promise<void> | undefined;

  /** Loads the sessions. */
  static async open(options: PostgresSessionStoreOptions): Promise<PostgresSessionStore> {
    const store = new PostgresSessionStore(options);
    await options.log.add(store);
    return store;
  }

  private constructor({ log, ...limits }: PostgresSessionStoreOptions) {
    super(limits);
    this.#log = log;
    this.sessions.sessionForgotten.subscribe((id) => this.#excess.add(id));
  }

  async apply(changes: readonly StoredChange[]): Promise<void> {
    for (const { section, id, json } of changes) {
      if (section === FORGOTTEN) this.#followForgotten(id, json);
      else this.#follow(id, json);
    }
    this.#expiry.onChanges(changes.length);
  }

  async reload(records: ReadonlyMap<string, readonly SharedRecord[]>): Promise<void> {
    const known = this.sessions.entries().map(([id]) => id);
    await this.apply([...replacement(FORGOTTEN, [], records), ...replacement(SECTION, known, records)]);
    this.#expiry.run();
  }

  async close(): Promise<void> {
    await this.#writing;
  }

  protected put(change: SessionChange): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ ...change, resolve, reject });
      this.#writing ??= this.#write();
    });
  }

  async #write(): Promise<void> {
    // All changes of this turn of the event loop share the first commit.
    await Promise.resolve();
    while (this.#queue.length > 0) {
      const pending = this.#queue.splice(0);
      await this.#commit(pending);
      this.#expiry.onChanges(pending.length);
      if (this.#excess.size > 0) await this.#removeExcess();
    }
    this.#writing = undefined;
  }

  async #commit(pending: readonly PendingChange[]): Promise<void> {
    let batch = new ChangeBatch(this.sessions, pending);
    const commit = (): Commit => ({
      changes: Array.from(batch.changed, ([id, { after }]) => changeOf(id, after)),
      publish: () => batch.apply(),
    });
    const isOutdated = () => batch.changed.entries().some(([id, { before }]) => this.sessions.get(id) !== before);
    const remake = async () => {
      batch.revert();
      batch = new ChangeBatch(this.sessions, pending);
      return commit();
    };
    try {
      const first = commit();
      if (first.changes.length > 0) {
        await this.#log.commit(first, { isOutdated, remake });
        // The next request of the client may arrive at any other replica.
        await this.#log.confirm();
      }
      batch.settle();
    } catch (error) {
      batch.fail(error);
    }
  }

  /** Stores what was forgotten. If that fails, it is still known in the database, and forgotten again after the next start. */
  async #removeExcess(): Promise<void> {
    const ids = [...this.#excess];
    this.#excess.clear();
    let version = this.#forgottenVersion;
    const commit = (): Commit => {
      version = this.#forgottenVersion;
      const forgotten = new Map(forgottenRecords(this.sessions.ended.forgotten()).map((record) => [record.id, record]));
      const covered = [...this.#forgotten.keys()].filter((id) => !forgotten.has(id));
      const changed = [...forgotten.values()].filter(({ id, json }) => this.#forgotten.get(id) !== json);
      const changes = [
        ...changed,
        ...covered.map((id): RecordedChange => ({ op: 'remove', section: FORGOTTEN, id })),
        ...ids.map((id) => changeOf(id, this.sessions.get(id))),
      ];
      const publish = () => {
        for (const id of covered) this.#forgotten.delete(id);
        for (const { id, json } of changed) this.#forgotten.set(id, json);
      };
      return { changes, publish };
    };
    await this.#log.update(commit, () => this.#forgottenVersion !== version).catch(() => undefined);
  }

  #follow(id: string, json: string | null): void {
    const stored =
      json === null ? undefined : this.#log.readRecord(SECTION, json, () => storedSession.parse(JSON.parse(json)));
    const hadEnded = this.sessions.hasEnded(id);
    this.sessions.follow(id, stored);
    if (stored?.kind === 'ended' && !hadEnded) this.ended.emit(id);
  }

  #followForgotten(id: string, json: string | null): void {
    this.#forgottenVersion++;
    if (json === null) {
      this.#forgotten.delete(id);
      return;
    }
    const forgotten = this.#log.readRecord(FORGOTTEN, json, () => forgottenSchema.parse(JSON.parse(json)));
    if (!forgotten) return;
    this.#forgotten.set(id, json);
    this.sessions.ended.addForgotten(forgotten);
  }
}

function changeOf(id: string, stored: StoredSession | undefined): RecordedChange {
  return stored ? putOf(SECTION, id, stored) : { op: 'remove', section: SECTION, id };
}

function putOf(section: string, id: string, content: StoredSession | ForgottenSessions): RecordedPut {
  return { op: 'put', section, id, json: JSON.stringify(content), expires: content.expires };
}

function forgottenRecords(forgotten: readonly ForgottenSessions[]): RecordedPut[] {
  return forgotten.map((each) => {
    const { namespace, name } = each;
    return putOf(FORGOTTEN, JSON.stringify(name === undefined ? [namespace] : [namespace, name]), each);
  });
}

/** The records of sessions, for a database that has none. */
export function sessionRecords(
  sessions: Iterable<readonly [string, StoredSession]>,
  forgotten: readonly ForgottenSessions[],
): RecordedPut[] {
  return [...Array.from(sessions, ([id, stored]) => putOf(SECTION, id, stored)), ...forgottenRecords(forgotten)];
}

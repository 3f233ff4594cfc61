import type { Holder } from '../../http/shares.ts';
import type { StoredChange, StoredRecord } from '../../registry/store/postgres/records.ts';
import type { Follower, SharedLog } from '../../registry/store/postgres/shared-log.ts';
import type { Commit, RecordedChange, RecordedPut } from '../../registry/store/store.ts';
import { EndedSessions, type ForgottenSessions } from './ended-sessions.ts';
import { forgottenSchema, parseStoredSession, type SessionState, type StoredSession } from './session-state.ts';
import {
  ChangeBatch,
  type DisplacedListener,
  endDisplaced,
  type PendingChange,
  type SessionStore,
  type SessionStoreLimits,
} from './session-store.ts';
import { SessionTable } from './session-table.ts';

const SECTION = 'sessions';
/** What a folder had forgotten before its sessions were migrated. */
const FORGOTTEN = 'forgotten_sessions';

/** Options of {@link PostgresSessionStore}. */
export interface PostgresSessionStoreOptions extends SessionStoreLimits {
  readonly log: SharedLog;
}

/** Sessions that replicas share (docs/replicas.md). One commit contains all changes that wait. */
export class PostgresSessionStore implements SessionStore, Follower {
  readonly sections = [SECTION, FORGOTTEN];
  onDisplaced: DisplacedListener | undefined = undefined;
  /** Called with the id of a session that another replica has ended. */
  onEnded: ((id: string) => void) | undefined = undefined;
  sessions: SessionTable;
  readonly #log: SharedLog;
  readonly #limits: SessionStoreLimits;
  #queue: PendingChange[] = [];
  #writing: Promise<void> | undefined;

  /** Loads the sessions. */
  static async open(options: PostgresSessionStoreOptions): Promise<PostgresSessionStore> {
    const store = new PostgresSessionStore(options);
    await options.log.add(store);
    return store;
  }

  private constructor({ log, ...limits }: PostgresSessionStoreOptions) {
    this.#log = log;
    this.#limits = limits;
    this.sessions = new SessionTable();
  }

  end(id: string, expires: number, holder?: Holder): Promise<void> {
    return this.#put({ id, expires, change: 'end', holder });
  }

  change(id: string, expires: number, change: (before: SessionState) => SessionState, holder?: Holder): Promise<void> {
    return this.#put({ id, expires, change, holder });
  }

  async apply(changes: readonly StoredChange[]): Promise<void> {
    for (const { section, id, json } of changes) {
      if (section !== SECTION) continue;
      const stored = json === null ? undefined : parseStoredSession(json);
      const hadEnded = this.sessions.hasEnded(id);
      this.sessions.set(id, stored);
      if (stored?.kind === 'ended' && !hadEnded) this.onEnded?.(id);
    }
  }

  async reload(records: ReadonlyMap<string, readonly StoredRecord[]>): Promise<void> {
    const stored = records.get(SECTION) ?? [];
    const forgotten = (records.get(FORGOTTEN) ?? []).map(({ json }) => forgottenSchema.parse(JSON.parse(json)));
    const { subscriptions, maxEnded } = this.#limits;
    this.sessions = new SessionTable({
      sessions: new Map(stored.map(({ id, json }) => [id, parseStoredSession(json)])),
      subscriptions,
      ended: new EndedSessions(maxEnded, forgotten),
      maxLevels: maxEnded,
    });
    this.sessions.onDisplaced = (id, uri) => void endDisplaced(this, this.sessions, id, uri);
    this.sessions.removeExpired(Date.now());
  }

  async close(): Promise<void> {
    await this.#writing;
  }

  #put(change: Omit<PendingChange, 'resolve' | 'reject'>): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ ...change, resolve, reject });
      this.#writing ??= this.#write();
    });
  }

  async #write(): Promise<void> {
    // All changes of this turn of the event loop share the first commit.
    await Promise.resolve();
    while (this.#queue.length > 0) await this.#commit(this.#queue.splice(0));
    this.#writing = undefined;
  }

  async #commit(pending: readonly PendingChange[]): Promise<void> {
    let batch = new ChangeBatch(this.sessions, pending);
    const commit = (): Commit => ({ changes: changesOf(batch), publish: () => batch.apply() });
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
        await this.#log.confirm().catch(() => undefined);
      }
      batch.settle();
    } catch (error) {
      batch.fail(error);
    }
  }
}

function changesOf({ changed }: ChangeBatch): RecordedChange[] {
  return [...changed].map(([id, { after }]) =>
    after ? putOf(id, after) : { op: 'remove', section: SECTION, id, promoted: undefined },
  );
}

function putOf(id: string, stored: StoredSession): RecordedPut {
  const { expires } = stored;
  return { op: 'put', section: SECTION, id, json: JSON.stringify(stored), isShadowed: false, expires };
}

/** The records of sessions, for a database that has none. */
export function sessionRecords(
  sessions: Iterable<readonly [string, StoredSession]>,
  forgotten: readonly ForgottenSessions[],
): RecordedPut[] {
  const ends = forgotten.map((each, at): RecordedPut => {
    const { expires } = each;
    return { op: 'put', section: FORGOTTEN, id: String(at), json: JSON.stringify(each), isShadowed: false, expires };
  });
  return [...Array.from(sessions, ([id, stored]) => putOf(id, stored)), ...ends];
}

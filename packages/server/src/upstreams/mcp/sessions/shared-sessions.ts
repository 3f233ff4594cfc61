import { Emitter } from '@sluice/protocol/emitter';
import type { TokenSealer } from '@sluice/protocol/seal';
import { z } from 'zod';
import { ExpiryScan } from '../../../registry/store/expiry-scan.ts';
import { replacement, type StoredChange } from '../../../registry/store/postgres/records.ts';
import type { Follower, SharedLog } from '../../../registry/store/postgres/shared-log.ts';
import type { Commit, RecordedChange, SharedRecord } from '../../../registry/store/store.ts';

const SECTION = 'upstream_sessions';
/** Time after its last use for which a session is known. */
const LIFETIME_MS = 24 * 3600 * 1000;
/** Interval at which the use of a session is shared: other replicas close it when nobody has used it for long. */
const TOUCH_MS = 120_000;

const sessionSchema = z.object({
  sessionId: z.string(),
  protocolVersion: z.string(),
  /** Exact JSON of the InitializeResult. */
  identity: z.string(),
  /** Epoch milliseconds. */
  usedAt: z.number(),
});

/** A session at an upstream, as another replica may use it. */
export type SharedSession = z.infer<typeof sessionSchema>;

/** A session at the upstream with this address, which `owner`, the id of a client session, has used. */
export interface ClosedSession {
  readonly address: string;
  readonly owner: string;
  readonly sessionId: string;
}

/**
 * Sessions at upstreams that replicas share (docs/replicas.md): all calls of one client session reach a stateful upstream in one
 * session, whichever replica they arrive at. Found by the address of the upstream and the id of the client session.
 */
export class SharedUpstreamSessions implements Follower {
  readonly sections = [SECTION];
  /** Another replica has opened a session for the client session with this id. */
  readonly opened = new Emitter<string>();
  /** Another replica has closed a session. */
  readonly closed = new Emitter<ClosedSession>();
  readonly #shared: SharedLog;
  readonly #sealer: TokenSealer;
  readonly #sessions = new Map<string, SharedSession>();
  readonly #expiry = new ExpiryScan(() => this.#removeExpired());

  /** `sealer` seals the sessions, so that the database alone does not suffice to use them. */
  constructor(shared: SharedLog, sealer: TokenSealer) {
    this.#shared = shared;
    this.#sealer = sealer;
  }

  /** Loads the sessions. */
  async open(): Promise<void> {
    await this.#shared.add(this);
  }

  find(address: string, owner: string): SharedSession | undefined {
    return this.#sessions.get(idOf(address, owner));
  }

  /** Shares a new session. Returns the one that is shared: another replica may have been faster. */
  async store(address: string, owner: string, session: Omit<SharedSession, 'usedAt'>): Promise<SharedSession> {
    const id = idOf(address, owner);
    const own = { ...session, usedAt: Date.now() };
    await this.#commit(id, () => (this.#sessions.has(id) ? undefined : own));
    return this.#sessions.get(id) ?? own;
  }

  /** Called when a session is used. */
  touch(address: string, owner: string): void {
    const id = idOf(address, owner);
    const session = this.#sessions.get(id);
    if (!session || Date.now() - session.usedAt < TOUCH_MS) return;
    const used = { ...session, usedAt: Date.now() };
    // Without waiting for the commit: calls follow each other quickly.
    this.#sessions.set(id, used);
    this.#commit(id, () => (this.#sessions.get(id)?.sessionId === used.sessionId ? used : undefined)).catch(
      () => undefined,
    );
  }

  /** Called when a session is closed or lost. */
  remove(address: string, owner: string, sessionId: string | undefined): void {
    const id = idOf(address, owner);
    if (this.#sessions.get(id)?.sessionId !== sessionId) return;
    this.#sessions.delete(id);
    // Unless another replica has opened the next one meanwhile.
    this.#commit(id, () => (this.#sessions.has(id) ? undefined : null)).catch(() => undefined);
  }

  async apply(changes: readonly StoredChange[]): Promise<void> {
    this.#expiry.onChanges(changes.length);
    for (const { id, json } of changes) {
      const [address = '', owner = ''] = z.tuple([z.string(), z.string()]).parse(JSON.parse(id));
      const before = this.#sessions.get(id);
      const session = json === null ? undefined : this.#unseal(json);
      if (session) this.#sessions.set(id, session);
      else this.#sessions.delete(id);
      if (before && before.sessionId !== session?.sessionId)
        this.closed.emit({ address, owner, sessionId: before.sessionId });
      if (session && before?.sessionId !== session.sessionId) this.opened.emit(owner);
    }
  }

  async reload(records: ReadonlyMap<string, readonly SharedRecord[]>): Promise<void> {
    await this.apply(replacement(SECTION, this.#sessions.keys(), records));
  }

  /** Sessions of replicas that have ended are closed by nobody. Returns the number of those that remain. */
  #removeExpired(): number {
    const oldest = Date.now() - LIFETIME_MS;
    for (const [id, { usedAt }] of this.#sessions) if (usedAt < oldest) this.#sessions.delete(id);
    return this.#sessions.size;
  }

  /** Stores what `make` returns: null removes, undefined changes nothing. It is called again if other replicas have committed. */
  async #commit(id: string, make: () => SharedSession | null | undefined): Promise<void> {
    const before = this.#sessions.get(id);
    const commit = (): Commit => {
      const session = make();
      const changes = session === undefined ? [] : [this.#changeOf(id, session)];
      return { changes, publish: () => void (session && this.#sessions.set(id, session)) };
    };
    await this.#shared.update(commit, () => this.#sessions.get(id) !== before);
  }

  #changeOf(id: string, session: SharedSession | null): RecordedChange {
    if (!session) return { op: 'remove', section: SECTION, id };
    const json = JSON.stringify(this.#sealer.seal('upstreamSession', JSON.stringify(session)));
    return { op: 'put', section: SECTION, id, json, expires: session.usedAt + LIFETIME_MS };
  }

  #unseal(json: string): SharedSession | undefined {
    const sealed: unknown = JSON.parse(json);
    const text = typeof sealed === 'string' ? this.#sealer.open('upstreamSession', sealed) : undefined;
    return text === undefined ? undefined : sessionSchema.safeParse(JSON.parse(text)).data;
  }
}

function idOf(address: string, owner: string): string {
  return JSON.stringify([address, owner]);
}

import { Emitter } from '@sluice/protocol/emitter';
import type { TokenSealer } from '@sluice/protocol/seal';
import { z } from 'zod';
import { ExpiryScan } from '../../../registry/store/expiry-scan.ts';
import type { SharedLog } from '../../../registry/store/postgres/shared-log.ts';
import { SharedRecords } from '../../../registry/store/postgres/shared-records.ts';
import type { StoredChange } from '../../../registry/store/record-log.ts';

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
export class SharedUpstreamSessions extends SharedRecords<SharedSession> {
  /** Another replica has opened a session for the client session with this id. */
  readonly opened = new Emitter<string>();
  /** Another replica has closed a session. */
  readonly closed = new Emitter<ClosedSession>();
  readonly #stored: (session: SharedSession) => { readonly json: string; readonly expires: number };
  readonly #expiry = new ExpiryScan(() => this.#removeExpired());

  /** `sealer` seals the sessions, so that the database alone does not suffice to use them. */
  constructor(shared: SharedLog, sealer: TokenSealer) {
    super(shared, SECTION, (json) => unseal(sealer, json));
    this.#stored = (session) => ({
      json: JSON.stringify(sealer.seal('upstreamSession', JSON.stringify(session))),
      expires: session.usedAt + LIFETIME_MS,
    });
  }

  /** Loads the sessions. */
  async open(): Promise<void> {
    await this.log.add(this);
  }

  find(address: string, owner: string): SharedSession | undefined {
    return this.records.get(idOf(address, owner));
  }

  /** Shares a new session. Returns the one that is shared: another replica may have been faster. */
  async store(address: string, owner: string, session: Omit<SharedSession, 'usedAt'>): Promise<SharedSession> {
    const id = idOf(address, owner);
    const own = { ...session, usedAt: Date.now() };
    await this.update(id, (before) => (before ? undefined : own), this.#stored);
    return this.records.get(id) ?? own;
  }

  /** Called when a session is used. */
  touch(address: string, owner: string): void {
    const id = idOf(address, owner);
    const session = this.records.get(id);
    if (!session || Date.now() - session.usedAt < TOUCH_MS) return;
    const used = { ...session, usedAt: Date.now() };
    // Without waiting for the commit: calls follow each other quickly.
    this.records.set(id, used);
    const current = (before: SharedSession | undefined) => (before?.sessionId === used.sessionId ? used : undefined);
    this.update(id, current, this.#stored).catch(() => undefined);
  }

  /** Called when a session is closed or lost. */
  remove(address: string, owner: string, sessionId: string | undefined): void {
    const id = idOf(address, owner);
    if (this.records.get(id)?.sessionId !== sessionId) return;
    this.records.delete(id);
    // Unless another replica has opened the next one meanwhile.
    this.update(id, (before) => (before ? undefined : null), this.#stored).catch(() => undefined);
  }

  override async apply(changes: readonly StoredChange[]): Promise<void> {
    this.#expiry.onChanges(changes.length);
    for (const { id, json } of changes) {
      const [address = '', owner = ''] = z.tuple([z.string(), z.string()]).parse(JSON.parse(id));
      const before = this.records.get(id);
      const session = json === null ? undefined : this.read(json);
      if (session) this.records.set(id, session);
      else this.records.delete(id);
      if (before && before.sessionId !== session?.sessionId)
        this.closed.emit({ address, owner, sessionId: before.sessionId });
      if (session && before?.sessionId !== session.sessionId) this.opened.emit(owner);
    }
  }

  /** Sessions of replicas that have ended are closed by nobody. Returns the number of those that remain. */
  #removeExpired(): number {
    const oldest = Date.now() - LIFETIME_MS;
    for (const [id, { usedAt }] of this.records) if (usedAt < oldest) this.records.delete(id);
    return this.records.size;
  }
}

/** Undefined for a session that this replica cannot open. */
function unseal(sealer: TokenSealer, json: string): SharedSession | undefined {
  const sealed: unknown = JSON.parse(json);
  const text = typeof sealed === 'string' ? sealer.open('upstreamSession', sealed) : undefined;
  return text === undefined ? undefined : sessionSchema.safeParse(JSON.parse(text)).data;
}

function idOf(address: string, owner: string): string {
  return JSON.stringify([address, owner]);
}

import { Emitter } from '@sluice/protocol/emitter';
import type { TokenSealer } from '@sluice/protocol/seal';
import { z } from 'zod';
import { Collection } from '../../../registry/store/collection.ts';

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

/** Stands for a session that this replica cannot open. */
const SEALED: SharedSession = { sessionId: '', protocolVersion: '', identity: '', usedAt: 0 };

/**
 * Sessions at upstreams that replicas share (docs/replicas.md): all calls of one client session reach a stateful upstream in one
 * session, whichever replica they arrive at. Found by the address of the upstream and the id of the client session. Sessions of
 * replicas that have ended are closed by nobody: they expire.
 */
export class SharedUpstreamSessions extends Collection<SharedSession> {
  /** Another replica has opened a session for the client session with this id. */
  readonly opened = new Emitter<string>();
  /** Another replica has closed a session. */
  readonly closed = new Emitter<ClosedSession>();
  /** Those that this replica must not use: they are being removed, or it cannot open them. */
  readonly #unusable = new WeakSet([SEALED]);
  /** When this replica last shared that a session is used. */
  readonly #touchedAt = new WeakMap<SharedSession, number>();

  /** `sealer` seals the sessions, so that the database alone does not suffice to use them. */
  constructor(sealer: TokenSealer) {
    super({
      name: 'upstream_sessions',
      schema: z.unknown().transform((sealed) => unseal(sealer, sealed) ?? SEALED),
      encode: (session) => sealer.seal('upstreamSession', JSON.stringify(session)),
      expires: ({ usedAt }) => usedAt + LIFETIME_MS,
    });
    this.changed.subscribe(({ id, before, content, isForeign }) => {
      if (isForeign) this.#onForeignChange(id, this.#usable(before), this.#usable(content));
    });
  }

  find(address: string, owner: string): SharedSession | undefined {
    return this.#usable(this.get(idOf(address, owner)));
  }

  /** Shares a new session. Returns the one that is shared: another replica may have been faster. */
  async store(address: string, owner: string, session: Omit<SharedSession, 'usedAt'>): Promise<SharedSession> {
    const own = { ...session, usedAt: Date.now() };
    await this.update(idOf(address, owner), (before) => (this.#usable(before) ? undefined : own));
    return this.find(address, owner) ?? own;
  }

  /** Called when a session is used. */
  touch(address: string, owner: string): void {
    const session = this.find(address, owner);
    const now = Date.now();
    if (!session || now - (this.#touchedAt.get(session) ?? session.usedAt) < TOUCH_MS) return;
    // Without waiting for the commit: calls follow each other quickly.
    this.#touchedAt.set(session, now);
    const { sessionId } = session;
    this.update(idOf(address, owner), (before) =>
      before?.sessionId === sessionId ? { ...before, usedAt: now } : undefined,
    ).catch(() => undefined);
  }

  /** Called when a session is closed or lost. */
  forget(address: string, owner: string, sessionId: string | undefined): void {
    const session = this.find(address, owner);
    if (!session || session.sessionId !== sessionId) return;
    this.#unusable.add(session);
    // Unless another replica has opened the next one meanwhile.
    this.update(idOf(address, owner), (before) => (before?.sessionId === sessionId ? null : undefined)).catch(
      () => undefined,
    );
  }

  #usable(session: SharedSession | undefined): SharedSession | undefined {
    return session && !this.#unusable.has(session) ? session : undefined;
  }

  #onForeignChange(id: string, before: SharedSession | undefined, after: SharedSession | undefined): void {
    if (before?.sessionId === after?.sessionId) return;
    const [address = '', owner = ''] = z.tuple([z.string(), z.string()]).parse(JSON.parse(id));
    if (before) this.closed.emit({ address, owner, sessionId: before.sessionId });
    if (after) this.opened.emit(owner);
  }
}

/** Undefined for a session that this replica cannot open. */
function unseal(sealer: TokenSealer, sealed: unknown): SharedSession | undefined {
  const text = typeof sealed === 'string' ? sealer.open('upstreamSession', sealed) : undefined;
  return text === undefined ? undefined : sessionSchema.safeParse(JSON.parse(text)).data;
}

function idOf(address: string, owner: string): string {
  return JSON.stringify([address, owner]);
}

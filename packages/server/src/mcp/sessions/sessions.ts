import { randomBytes, randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isJsonObject, type JsonObject, parseJson } from '@sluice/protocol/json/parse';
import type { TokenSealer } from '@sluice/protocol/seal';
import type { Namespace } from '../../registry/entries.ts';
import { errorCode, type Files, replaceFile } from '../../registry/store/files.ts';
import { StoreError } from '../../registry/store/store.ts';
import type { ClientProfile, ClientProfiles } from '../client-profile.ts';
import type { SessionState } from './session-state.ts';
import type { SessionStore } from './session-store.ts';

/** A legacy client's session, as its id carries it (mcp 3). */
export interface ClientSession {
  /** Random; names the session in whatever is kept about it. */
  readonly id: string;
  readonly namespace: Namespace;
  readonly protocolVersion: string;
  /** The client's own words on itself, for the sessions that are opened upstream on its behalf. */
  readonly clientInfo: JsonObject;
  readonly profile: ClientProfile;
  /** The user the session belongs to, where an authenticating proxy names one. */
  readonly user: string | undefined;
  /** When the session ends by itself, in milliseconds since the epoch. */
  readonly expires: number;
}

/** What a new session is made from. */
export interface SessionOpening {
  readonly namespace: Namespace;
  readonly protocolVersion: string;
  readonly clientInfo: JsonObject;
  readonly capabilities: JsonObject;
  readonly user: string | undefined;
}

/** A session id must fit a header; what does not fit is refused at `initialize` (mcp 3). */
const MAX_TOKEN_BYTES = 4096;
const LIFETIME_MS = 7 * 24 * 3600 * 1000;
/** Opened sessions kept so that a request costs no decryption. */
const MAX_CACHED = 10_000;

/**
 * Legacy sessions without a table of sessions: the id given to the client is the session, sealed. Any process with the
 * key opens it, so a restart is invisible to clients.
 */
export class ClientSessions {
  readonly #sealer: TokenSealer;
  readonly #profiles: ClientProfiles;
  readonly #kept: SessionStore;
  readonly #now: () => number;
  readonly #opened = new Map<string, ClientSession>();

  constructor(sealer: TokenSealer, profiles: ClientProfiles, kept: SessionStore, now: () => number = Date.now) {
    this.#sealer = sealer;
    this.#profiles = profiles;
    this.#kept = kept;
    this.#now = now;
  }

  /** The session's id for the client; undefined when what the client says of itself does not fit into one. */
  create(opening: SessionOpening): string | undefined {
    const text = JSON.stringify({
      id: randomUUID(),
      ns: opening.namespace,
      v: opening.protocolVersion,
      info: opening.clientInfo,
      caps: opening.capabilities,
      user: opening.user,
      iat: this.#now(),
    });
    const token = this.#sealer.seal('session', text);
    return token.length <= MAX_TOKEN_BYTES ? token : undefined;
  }

  /** The session of this id; undefined when it is forged, expired, ended, of another namespace or of another user. */
  open(token: string, namespace: Namespace, user: string | undefined): ClientSession | undefined {
    if (token.length > MAX_TOKEN_BYTES) return undefined;
    let session = this.#opened.get(token);
    if (!session) {
      session = this.#unseal(token, namespace);
      if (!session) return undefined;
      this.#remember(token, session);
    }
    const ours = session.namespace === namespace && session.user === user;
    return ours && session.expires > this.#now() && !this.#kept.ended(session.id) ? session : undefined;
  }

  /** What the client has changed during its session. */
  state(session: ClientSession): SessionState | undefined {
    return this.#kept.state(session.id);
  }

  /** Changes that; resolves when it is durable. Rejects when there is too much of it. */
  change(session: ClientSession, change: (before: SessionState) => SessionState): Promise<void> {
    return this.#kept.change(session.id, session.expires, change);
  }

  /** True when the session was ended: nobody can be asked or come back in it. */
  ended(session: ClientSession): boolean {
    return this.#kept.ended(session.id);
  }

  /** Ends a session for good; resolves when no restart can bring it back. */
  end(session: ClientSession): Promise<void> {
    return this.#kept.end(session.id, session.expires);
  }

  #unseal(token: string, namespace: Namespace): ClientSession | undefined {
    const text = this.#sealer.open('session', token);
    if (text === undefined) return undefined;
    const sealed = parseJson(text);
    if (!isJsonObject(sealed)) return undefined;
    const { id, ns, v, info, caps, user, iat } = sealed;
    if (typeof id !== 'string' || typeof v !== 'string' || typeof iat !== 'number') return undefined;
    if (ns !== namespace || !isJsonObject(info) || !isJsonObject(caps)) return undefined;
    return {
      id,
      namespace,
      protocolVersion: v,
      clientInfo: info,
      profile: this.#profiles.of('legacy', caps),
      user: typeof user === 'string' ? user : undefined,
      expires: iat + LIFETIME_MS,
    };
  }

  #remember(token: string, session: ClientSession): void {
    if (this.#opened.size >= MAX_CACHED) {
      const oldest = this.#opened.keys().next();
      if (!oldest.done) this.#opened.delete(oldest.value);
    }
    this.#opened.set(token, session);
  }
}

const KEY_BYTES = 32;
/** Beside `registry.json`, mode 0600 (mcp 3). */
const FILE = 'session.key';

/**
 * The key that sessions are sealed with: the one in the folder, or a new one that is kept there, so that the next
 * start opens the sessions of this one. Throws {@link StoreError} when the file holds something else.
 */
export async function sessionKeyIn(folder: string, files: Files): Promise<Buffer> {
  const path = join(folder, FILE);
  try {
    const key = Buffer.from((await readFile(path, 'utf8')).trim(), 'hex');
    if (key.length === KEY_BYTES) return key;
    throw new StoreError(`${path} does not hold a key of ${KEY_BYTES} bytes in hex; remove it to have a new one made`);
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error;
  }
  const key = newSessionKey();
  await replaceFile(files, path, [`${key.toString('hex')}\n`]);
  return key;
}

/** A key for sessions that end with the process. */
export function newSessionKey(): Buffer {
  return randomBytes(KEY_BYTES);
}

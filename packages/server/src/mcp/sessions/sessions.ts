import { randomBytes, randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isJsonObject, type JsonObject, parseJson } from '@sluice/protocol/json/parse';
import type { TokenSealer } from '@sluice/protocol/seal';
import { type QuotaOwner, quotaOwner } from '../../http/quota.ts';
import { Blocks } from '../../identity/blocks.ts';
import type { StoredPrincipal } from '../../identity/principal.ts';
import type { Namespace } from '../../registry/entries.ts';
import { errorCode, type Files, replaceFile } from '../../registry/store/files.ts';
import { StoreError } from '../../registry/store/store.ts';
import type { DownstreamSession } from '../../upstreams/downstream.ts';
import type { ClientProfile, ClientProfiles } from '../client-profile.ts';
import type { ActiveSession, ActiveSessions } from './active-sessions.ts';
import { type SessionState, stateOf } from './session-state.ts';
import type { SessionChange, SessionStore } from './session-store.ts';

/** Session of a legacy client: the content of its id, its stored state and its open streams. */
export class ClientSession implements DownstreamSession {
  /** Random; key of the stored state. */
  readonly id: string;
  readonly namespace: Namespace;
  readonly protocolVersion: string;
  /** `clientInfo` of the client, of bounded size, for the sessions that are opened upstream on its behalf. */
  readonly clientInfo: JsonObject;
  readonly profile: ClientProfile;
  /** Whom the session counts for: that principal, else the address of the client that initialized it. */
  readonly holder: QuotaOwner;
  readonly #principalId: string;
  readonly #expires: number;
  readonly #store: SessionStore;
  readonly #active: ActiveSessions;
  readonly #blocks: Pick<Blocks, 'wasBlockedSince'>;

  constructor(
    content: SessionContent,
    store: SessionStore,
    active: ActiveSessions,
    blocks: Pick<Blocks, 'wasBlockedSince'> = new Blocks(),
  ) {
    this.id = content.id;
    this.namespace = content.namespace;
    this.protocolVersion = content.protocolVersion;
    this.clientInfo = content.clientInfo;
    this.profile = content.profile;
    this.holder = content.holder;
    this.#principalId = content.principalKey.slice(content.principalKey.indexOf(':') + 1);
    this.#expires = content.expires;
    this.#store = store;
    this.#active = active;
    this.#blocks = blocks;
  }

  get capabilities(): JsonObject {
    return this.profile.capabilities;
  }

  get hasEnded(): boolean {
    if (this.#blocks.wasBlockedSince(this.#principalId, this.#expires - SESSION_LIFETIME_MS)) return true;
    return this.#store.sessions.hasEnded(this.id, { holder: this.holder, expires: this.#expires });
  }

  get state(): SessionState {
    return stateOf(this.#store.sessions.get(this.id));
  }

  /** Open streams and server requests in this process; undefined if there are none. */
  get active(): ActiveSession | undefined {
    return this.#active.find(this.id);
  }

  channel(): ActiveSession {
    return this.#active.ensure(this);
  }

  /** Changes the state of the session, or ends it for good. See {@link SessionStore.change}. */
  change(change: SessionChange): Promise<void> {
    return this.#store.change(this.id, this.#expires, change, this.holder);
  }
}

/** The part of a session that its id contains. */
interface SessionContent
  extends Pick<ClientSession, 'id' | 'namespace' | 'protocolVersion' | 'clientInfo' | 'profile' | 'holder'> {
  /** The key of the principal that the session belongs to. */
  readonly principalKey: string;
  /** When the session expires, in milliseconds since the epoch. */
  readonly expires: number;
}

/** Input of a new session. */
export interface SessionOpening
  extends Pick<ClientSession, 'namespace' | 'protocolVersion' | 'clientInfo' | 'capabilities'> {
  readonly principal: Pick<StoredPrincipal, 'key'>;
  /** Address of the client. */
  readonly address: string | undefined;
}

/** A session id must fit a header: longer ones are rejected at `initialize`. */
const MAX_TOKEN_BYTES = 4096;
/** Life of a session, from its `initialize`. */
export const SESSION_LIFETIME_MS = 7 * 24 * 3600 * 1000;
/** Number of sessions whose ids are cached decrypted. */
const MAX_CACHED = 10_000;

/**
 * Opens legacy sessions. There is no table of sessions: the id is the sealed session. Any process with
 * the key opens it, so a restart is invisible to clients.
 */
export class ClientSessions {
  readonly #sealer: TokenSealer;
  readonly #profiles: ClientProfiles;
  readonly #store: SessionStore;
  readonly #active: ActiveSessions;
  readonly #blocks: Pick<Blocks, 'wasBlockedSince'> | undefined;
  readonly #now: () => number;
  readonly #cache = new Map<string, { readonly content: SessionContent; readonly session: ClientSession }>();

  constructor(
    sealer: TokenSealer,
    profiles: ClientProfiles,
    store: SessionStore,
    active: ActiveSessions,
    now: () => number = Date.now,
    blocks?: Pick<Blocks, 'wasBlockedSince'>,
  ) {
    this.#sealer = sealer;
    this.#profiles = profiles;
    this.#store = store;
    this.#active = active;
    this.#blocks = blocks;
    this.#now = now;
  }

  /** Returns the id of a new session; undefined if the capabilities are too large for one. */
  create(opening: SessionOpening): string | undefined {
    const { principal } = opening;
    const text = JSON.stringify({
      id: randomUUID(),
      ns: opening.namespace,
      v: opening.protocolVersion,
      info: opening.clientInfo,
      caps: opening.capabilities,
      principal: principal.key,
      addr: principal.key === '' ? opening.address : undefined,
      iat: this.#now(),
    });
    const token = this.#sealer.seal('session', text);
    return token.length <= MAX_TOKEN_BYTES ? token : undefined;
  }

  /** Returns the session with this id; undefined if it is forged, expired, ended, or of another namespace or principal. */
  open(token: string, namespace: Namespace, { key }: Pick<StoredPrincipal, 'key'>): ClientSession | undefined {
    if (token.length > MAX_TOKEN_BYTES) return undefined;
    let known = this.#cache.get(token);
    if (!known) {
      const content = this.#unseal(token, namespace);
      if (!content) return undefined;
      known = { content, session: new ClientSession(content, this.#store, this.#active, this.#blocks) };
      const [oldest] = this.#cache.size < MAX_CACHED ? [] : this.#cache.keys();
      if (oldest !== undefined) this.#cache.delete(oldest);
      this.#cache.set(token, known);
    }
    const { content, session } = known;
    const matches = content.namespace === namespace && content.principalKey === key;
    return matches && content.expires > this.#now() && !session.hasEnded ? session : undefined;
  }

  #unseal(token: string, namespace: Namespace): SessionContent | undefined {
    const text = this.#sealer.open('session', token);
    if (text === undefined) return undefined;
    const sealed = parseJson(text);
    if (!isJsonObject(sealed)) return undefined;
    const { id, ns, v, info, caps, principal: key, addr, iat } = sealed;
    if (typeof id !== 'string' || typeof v !== 'string' || typeof iat !== 'number') return undefined;
    if (typeof key !== 'string' || ns !== namespace || !isJsonObject(info) || !isJsonObject(caps)) return undefined;
    return {
      id,
      namespace,
      protocolVersion: v,
      clientInfo: info,
      profile: this.#profiles.of('legacy', caps),
      principalKey: key,
      holder: quotaOwner(namespace, { key }, typeof addr === 'string' ? addr : undefined),
      expires: iat + SESSION_LIFETIME_MS,
    };
  }
}

const KEY_BYTES = 32;
/** Beside `registry.json`, mode 0600. */
const FILE = 'session.key';

/**
 * Returns the key that seals sessions: from the folder, or a new one that is stored there, so that sessions survive
 * a restart. Throws {@link StoreError} if the file does not contain a key.
 */
export async function sessionKeyIn(folder: string, files: Files): Promise<Buffer> {
  const path = join(folder, FILE);
  try {
    const key = Buffer.from((await readFile(path, 'utf8')).trim(), 'hex');
    if (key.length === KEY_BYTES) return key;
    throw new StoreError(
      `${path} does not contain a key of ${KEY_BYTES} bytes in hex; remove it to generate a new one`,
    );
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error;
  }
  const key = newSessionKey();
  await replaceFile(files, path, [`${key.toString('hex')}\n`]);
  return key;
}

/** Returns a new key, for sessions that end with the process. */
export function newSessionKey(): Buffer {
  return randomBytes(KEY_BYTES);
}

import type { IdentitySettings } from '@sluice/contract';
import { SERVICE_KEY_PREFIX } from '@sluice/contract/service-key';
import {
  ANONYMOUS_CALLER,
  type Authenticate,
  type Authenticated,
  authenticated,
  type Credentials,
  hasServiceKey,
  type ReceivedHead,
  type Rejected,
  type Requirement,
} from './authenticator.ts';
import type { Invalid } from './claims.ts';
import { ProxyHeaders, proxyHeaders } from './proxy-headers.ts';
import type { RecoveryKeys } from './recovery.ts';
import { type May, mayOf } from './roles.ts';
import { ServiceKey, ServiceKeys } from './service-keys.ts';
import { identityHeaders, OWN_AUTHORIZATION, receivedHeaders } from './settings.ts';
import { SignInReader, type SignIns } from './sign-ins.ts';
import type { IssuerParts } from './token-issuer.ts';
import { Tokens, type Verification } from './tokens.ts';
import { TrustedProxies } from './trusted-proxies.ts';

/** What a listener serves. Its credentials depend on that. */
export type Served = 'mcp' | 'management' | 'inference';

/** A listener of clients. */
export interface ServedListener {
  readonly served: Served;
  /** The namespace whose endpoint a target is. */
  readonly namespaceOf: (target: string) => string | undefined;
}

/** Returns the address of a client by that of its connection and the value of X-Forwarded-For. */
export type AddressOf = (peer: string | undefined, forwardedFor: string | undefined) => string | undefined;

/** What one object `identity` decides. The members have the meaning of those of `Identity`. */
export interface ActiveIdentity {
  readonly settings: IdentitySettings | undefined;
  readonly may: May | undefined;
  readonly droppedHeaders: ReadonlySet<string>;
  readonly receivedHeaders: ReadonlySet<string> | undefined;
  /** Those of the management listener: a recovery key counts whatever is configured. */
  readonly managementHeaders: ReadonlySet<string> | undefined;
  readonly addressOf: AddressOf | undefined;
  readonly ignored: number | undefined;
  /** Undefined without `identity`. */
  readonly tokens: Tokens | undefined;
  readonly keys: readonly ServiceKey[];
  readonly signIns: SignInReader;
  /** Ends what it has begun, once it is not active any more and {@link ConfiguredIdentity} has taken over what stays. */
  close(): void;
  requirementOf(served: Served): Exclude<Requirement, 'open'> | undefined;
  authenticate(listener: ServedListener, head: ReceivedHead): ReturnType<Authenticate>;
  reassess(by: Authenticated, served: Served, namespace: string | undefined): Authenticated | undefined;
}

const NONE: ReadonlySet<string> = new Set();

/** Returns what is decided without the object: headers that name a user are believed from everybody. */
export function unconfiguredIdentity(): ActiveIdentity {
  const authenticate = proxyHeaders();
  return {
    settings: undefined,
    may: undefined,
    droppedHeaders: NONE,
    receivedHeaders: undefined,
    managementHeaders: undefined,
    addressOf: undefined,
    ignored: undefined,
    tokens: undefined,
    keys: [],
    signIns: new SignInReader([], undefined),
    close: () => {},
    requirementOf: () => undefined,
    authenticate: (_listener, head) => authenticate(head),
    reassess: (by) => by,
  };
}

/** What an identity needs from outside. */
export interface IdentityParts extends Omit<IssuerParts, 'turns'> {
  /** Those to the console, if there is any. */
  readonly signIns?: SignIns | undefined;
  readonly recovery?: RecoveryKeys | undefined;
}

const SUSPENDED: Rejected = {
  kind: 'rejected',
  status: 503,
  reason: 'this replica cannot read who may call: install the release that has stored it',
  headers: ['Retry-After', '5'],
  cause: 'the active identity cannot be read',
};

/** Returns what is decided while the active settings cannot be read: nobody may do anything. */
export function suspendedIdentity(earlier: ActiveIdentity): ActiveIdentity {
  const { settings, droppedHeaders, receivedHeaders, managementHeaders, addressOf, ignored } = earlier;
  return {
    settings,
    may: (_principal, right) => right === 'open',
    droppedHeaders,
    // Another set: requests that are being authenticated begin again.
    receivedHeaders: new Set(receivedHeaders),
    managementHeaders: new Set(managementHeaders),
    addressOf,
    ignored,
    tokens: undefined,
    keys: earlier.keys,
    signIns: new SignInReader([], undefined),
    close: () => earlier.close(),
    requirementOf: () => 'required',
    authenticate: () => SUSPENDED,
    reassess: () => undefined,
  };
}

const IS_BEARER = /^bearer +(\S+)$/i;

const MISPLACED: Rejected = {
  kind: 'rejected',
  status: 401,
  reason: 'this header is for the credential of the model: send the key of this service in X-Sluice-Authorization',
  headers: ['WWW-Authenticate', 'Bearer'],
  cause: 'the key is in the header of the model',
};
const NOT_FOR_MANAGEMENT: Rejected = {
  kind: 'rejected',
  status: 403,
  reason: 'this key does not count on the management listener: set "management: true" for it in identity.keys',
  cause: 'the key does not count on the management listener',
};

/** The client can repeat the request: the keys may be known then. */
const NO_KEYS: Rejected = {
  kind: 'rejected',
  status: 503,
  reason: 'the token cannot be verified at the moment: retry later',
  headers: ['Retry-After', '5'],
  cause: 'the keys of the issuer are unknown, or too many tokens are new',
};
const OTHER_AUDIENCE = 'the token is for another audience';
const ACTOR = 'a token with an actor does not count on the management listener';

/** Rejects a credential. Its client does not learn the cause. */
function invalidToken(cause: string): Rejected {
  const headers = ['WWW-Authenticate', 'Bearer error="invalid_token"'];
  return { kind: 'rejected', status: 401, reason: 'invalid token', headers, cause };
}

/** Decides by the settings of an object `identity`. */
export class ConfiguredIdentity implements ActiveIdentity {
  readonly settings: IdentitySettings;
  readonly may: May;
  readonly droppedHeaders: ReadonlySet<string>;
  readonly receivedHeaders: ReadonlySet<string>;
  readonly managementHeaders: ReadonlySet<string>;
  readonly addressOf: AddressOf | undefined;
  readonly tokens: Tokens;
  readonly signIns: SignInReader;
  readonly #keys: ServiceKeys;
  readonly #parts: IdentityParts;
  readonly #proxies: TrustedProxies | undefined;
  readonly #proxyHeaders: ProxyHeaders | undefined;

  /** `earlier` is what this replaces. */
  constructor(settings: IdentitySettings, parts: IdentityParts, earlier?: ActiveIdentity) {
    const { proxy, keys, tokens, roles, anonymous } = settings;
    const replaced = earlier instanceof ConfiguredIdentity ? earlier : undefined;
    const proxies = proxy && new TrustedProxies(proxy.trusted);
    this.settings = settings;
    this.#parts = parts;
    this.may = mayOf(roles, anonymous);
    this.droppedHeaders = identityHeaders(settings);
    this.receivedHeaders = receivedHeaders(settings);
    this.managementHeaders = new Set([...this.receivedHeaders, 'authorization']);
    this.addressOf =
      proxies && ((peer, forwarded) => proxies.clientAddress(peer, forwarded === undefined ? [] : [forwarded]));
    this.#keys = new ServiceKeys(keys, parts.now, earlier?.keys);
    this.tokens = new Tokens(tokens, parts, replaced?.tokens);
    this.signIns = new SignInReader(tokens, parts.signIns);
    this.#proxies = proxies;
    this.#proxyHeaders =
      proxy &&
      proxies &&
      new ProxyHeaders(
        proxy,
        proxies,
        tokens.map(({ name }) => name),
      );
  }

  get keys(): readonly ServiceKey[] {
    return this.#keys.all;
  }

  get ignored(): number | undefined {
    return this.#proxyHeaders?.ignored;
  }

  requirementOf(served: Served): Exclude<Requirement, 'open'> {
    const { anonymous, inference } = this.settings;
    const isRequired = anonymous === 'deny' && (served === 'mcp' || (served === 'inference' && inference));
    return isRequired ? 'required' : 'optional';
  }

  authenticate(listener: ServedListener, head: ReceivedHead): ReturnType<Authenticate> {
    const found = this.#byCredential(listener, head) ?? this.#bySignIn(listener, head) ?? this.#byProxy(head);
    if (listener.served !== 'management' || found instanceof Promise) return found;
    if (found.kind === 'authenticated' && found.principal.kind !== 'anonymous') return found;
    // Its requests reach no upstream.
    if (listener.namespaceOf(head.target) !== undefined) return found;
    return this.#parts.recovery?.authenticate(head, this.#parts.now)?.then((by) => by ?? found) ?? found;
  }

  /** Ends what the settings have begun. */
  close(): void {
    this.tokens.close();
  }

  /** The principal of a key or token, and what rejects a request with a credential; undefined without one. */
  #byCredential(listener: ServedListener, head: ReceivedHead): ReturnType<Authenticate> | undefined {
    const { target, headers, credentials } = head;
    const { keys, tokens } = this.settings;
    if (keys.length + tokens.length === 0) return undefined;
    const isInference = listener.served === 'inference';
    if (isInference && keys.length > 0 && isMisplaced(headers, credentials)) return MISPLACED;
    if (this.#isProxyAlone(head)) return undefined;
    const lines = credentials?.get(isInference ? OWN_AUTHORIZATION : 'authorization');
    if (!lines) return undefined;
    if (lines.length > 1) return invalidToken('several credentials');
    const [line = ''] = lines;
    const recent = this.tokens.recent(line);
    if (recent) return acceptToken(recent, listener, target);
    const [, text] = IS_BEARER.exec(line) ?? [];
    if (text === undefined) return invalidToken('the credential is no bearer token');
    if (tokens.length === 0 || text.startsWith(SERVICE_KEY_PREFIX))
      return acceptKey(this.#keys.authenticate(text), listener, target);
    const verification = this.tokens.verify(line, text);
    return verification instanceof Promise
      ? verification.then((settled) => acceptToken(settled, listener, target))
      : acceptToken(verification, listener, target);
  }

  /** Who has signed in to the console. */
  #bySignIn({ served }: ServedListener, head: ReceivedHead): ReturnType<Authenticate> | undefined {
    return served === 'management' && !this.#isProxyAlone(head) ? this.signIns.authenticate(head) : undefined;
  }

  /** Whether the headers of a proxy count alone, whatever credential comes with them. */
  #isProxyAlone({ peer }: ReceivedHead): boolean {
    return (this.settings.proxy?.ignore_authorization && this.#proxies?.isTrusted(peer)) ?? false;
  }

  #byProxy({ peer, credentials }: ReceivedHead): Authenticated | Rejected {
    const found = (credentials && this.#proxyHeaders?.authenticate(credentials, peer)) ?? ANONYMOUS_CALLER;
    return found.kind === 'invalid' ? invalidToken(found.reason) : found;
  }

  reassess(by: Authenticated, served: Served, namespace: string | undefined): Authenticated | undefined {
    const again = this.#provenAgain(by, served, namespace);
    return again?.principal.key === by.principal.key ? again : undefined;
  }

  #provenAgain(by: Authenticated, served: Served, namespace: string | undefined): Authenticated | undefined {
    const { principal, proof, expiresAt, isHandedOff } = by;
    const listener = { served, namespaceOf: () => namespace };
    switch (proof.kind) {
      case 'none':
        // Others were named by headers that were believed from everybody.
        if (principal.kind !== 'anonymous') return undefined;
        return isHandedOff || this.requirementOf(served) === 'optional' ? by : undefined;
      case 'proxy': {
        const { peer, headers } = proof;
        const found = this.#proxies?.isTrusted(peer) ? this.#proxyHeaders?.authenticate(headers, peer) : undefined;
        return found?.kind === 'authenticated' ? found : undefined;
      }
      case 'key': {
        const key = this.#keys.find(proof.hash, expiresAt);
        return isHandedOff && key instanceof ServiceKey ? key.authenticated : accepted(acceptKey(key, listener, ''));
      }
      case 'token': {
        const token = this.tokens.reassess(proof, expiresAt);
        return isHandedOff || !token ? token?.authenticated : accepted(acceptToken(token, listener, ''));
      }
      case 'recovery':
        return (expiresAt ?? 0) > this.#parts.now() ? by : undefined;
      case 'sign_in':
        return this.signIns.reassess(proof.id);
    }
  }
}

function accepted(found: Authenticated | Rejected): Authenticated | undefined {
  return found.kind === 'authenticated' ? found : undefined;
}

/** Whether a key is where the credential of a model may be: it would be sent there. */
function isMisplaced(headers: ReceivedHead['headers'], credentials: Credentials | undefined): boolean {
  const others = [headers['x-api-key'], headers['api-key']].map(String);
  return [...(credentials?.get('authorization') ?? []), ...others].some(hasServiceKey);
}

function acceptKey(
  key: ServiceKey | Invalid,
  { served, namespaceOf }: ServedListener,
  target: string,
): Authenticated | Rejected {
  if (!(key instanceof ServiceKey)) return invalidToken(key.reason);
  const namespace = namespaceOf(target);
  const isManagement = served === 'management';
  if (isManagement && !key.settings.management) return NOT_FOR_MANAGEMENT;
  // Most requests to the management listener are for no namespace.
  const counts = (isManagement && namespace === undefined) || isIn(key.settings.for, namespace);
  return counts ? receivedBy(served, key.authenticated) : invalidToken('the key does not count in this namespace');
}

/** The audience of a token is checked for each request: the same one may be sent to each endpoint. */
function acceptToken(
  token: Verification,
  { served, namespaceOf }: ServedListener,
  target: string,
): Authenticated | Rejected {
  if (token.kind === 'invalid') return invalidToken(token.reason);
  if (token.kind === 'unavailable') return NO_KEYS;
  const { authenticated: by, namespaces, isForManagement, claims } = token;
  const isManagement = served === 'management';
  if (isManagement ? !isForManagement : !isIn(namespaces, namespaceOf(target))) return invalidToken(OTHER_AUDIENCE);
  return isManagement && Object.hasOwn(claims, 'act') ? invalidToken(ACTOR) : receivedBy(served, by);
}

/** Whether what counts in these namespaces counts at the endpoint of one; elsewhere, if it counts in all. */
function isIn(namespaces: readonly string[], namespace: string | undefined): boolean {
  return namespaces.some((name) => name === '*' || name === namespace);
}

/** What is cached names `Authorization` as the header of the credential. */
function receivedBy(served: Served, by: Authenticated): Authenticated {
  const { principal, proof, expiresAt } = by;
  if (served !== 'inference' || !('header' in proof)) return by;
  return authenticated(principal, { ...proof, header: OWN_AUTHORIZATION }, expiresAt);
}

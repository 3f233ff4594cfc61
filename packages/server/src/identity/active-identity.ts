import type { IdentitySettings } from '@sluice/contract';
import {
  ANONYMOUS_CALLER,
  type Authenticate,
  type Authenticated,
  type Credentials,
  hasServiceKey,
  type ReceivedHead,
  type Rejected,
  type Requirement,
} from './authenticator.ts';
import { ProxyHeaders, proxyHeaders } from './proxy-headers.ts';
import { type May, mayOf } from './roles.ts';
import { ServiceKey, ServiceKeys } from './service-keys.ts';
import { identityHeaders, OWN_AUTHORIZATION, receivedHeaders } from './settings.ts';
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
  readonly addressOf: AddressOf | undefined;
  readonly ignored: number | undefined;
  requirementOf(served: Served): Exclude<Requirement, 'open'> | undefined;
  authenticate(listener: ServedListener, head: ReceivedHead): ReturnType<Authenticate>;
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
    addressOf: undefined,
    ignored: undefined,
    requirementOf: () => undefined,
    authenticate: (_listener, head) => authenticate(head),
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
  readonly addressOf: AddressOf | undefined;
  readonly #keys: ServiceKeys;
  readonly #proxies: TrustedProxies | undefined;
  readonly #proxyHeaders: ProxyHeaders | undefined;

  /** `earlier` is what this replaces. */
  constructor(settings: IdentitySettings, now?: () => number, earlier?: ActiveIdentity) {
    const { proxy, keys, roles, anonymous } = settings;
    const proxies = proxy && new TrustedProxies(proxy.trusted);
    this.settings = settings;
    this.may = mayOf(roles, anonymous);
    this.droppedHeaders = identityHeaders(settings);
    this.receivedHeaders = receivedHeaders(settings);
    this.addressOf =
      proxies && ((peer, forwarded) => proxies.clientAddress(peer, forwarded === undefined ? [] : [forwarded]));
    this.#keys = new ServiceKeys(keys, now, earlier instanceof ConfiguredIdentity ? earlier.#keys : undefined);
    this.#proxies = proxies;
    this.#proxyHeaders = proxy && proxies && new ProxyHeaders(proxy, proxies, []);
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
    return this.#byKey(listener, head) ?? this.#byProxy(head);
  }

  /** The principal of a key, and what rejects a request with a credential; undefined without one. */
  #byKey(
    { served, namespaceOf }: ServedListener,
    { peer, target, headers, credentials }: ReceivedHead,
  ): Authenticated | Rejected | undefined {
    const { keys, proxy } = this.settings;
    if (keys.length === 0) return undefined;
    const isInference = served === 'inference';
    if (isInference && isMisplaced(headers, credentials)) return MISPLACED;
    if (proxy?.ignore_authorization && this.#proxies?.isTrusted(peer)) return undefined;
    const lines = credentials?.get(isInference ? OWN_AUTHORIZATION : 'authorization');
    if (!lines) return undefined;
    if (lines.length > 1) return invalidToken('several credentials');
    const [, text] = IS_BEARER.exec(lines[0] ?? '') ?? [];
    if (text === undefined) return invalidToken('the credential is no bearer token');
    const key = this.#keys.authenticate(text);
    if (!(key instanceof ServiceKey)) return invalidToken(key.reason);
    const namespace = namespaceOf(target);
    const isManagement = served === 'management';
    if (isManagement && !key.settings.management) return NOT_FOR_MANAGEMENT;
    // Most requests to the management listener are for no namespace.
    if ((isManagement && namespace === undefined) || counts(key, namespace)) return key.authenticated;
    return invalidToken('the key does not count in this namespace');
  }

  #byProxy({ peer, credentials }: ReceivedHead): Authenticated | Rejected {
    const found = (credentials && this.#proxyHeaders?.authenticate(credentials, peer)) ?? ANONYMOUS_CALLER;
    return found.kind === 'invalid' ? invalidToken(found.reason) : found;
  }
}

/** Whether a key is where the credential of a model may be: it would be sent there. */
function isMisplaced(headers: ReceivedHead['headers'], credentials: Credentials | undefined): boolean {
  const others = [headers['x-api-key'], headers['api-key']].map(String);
  return [...(credentials?.get('authorization') ?? []), ...others].some(hasServiceKey);
}

/** Whether a key counts at the endpoint of a namespace; elsewhere, if it counts in all. */
function counts({ settings: { for: namespaces } }: ServiceKey, namespace: string | undefined): boolean {
  return namespaces.some((name) => name === '*' || name === namespace);
}

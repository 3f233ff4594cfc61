import type { IdentitySettings } from '@sluice/contract';
import {
  type Authenticate,
  type Credentials,
  hasServiceKey,
  type ReceivedHead,
  type Rejected,
  type Requirement,
} from './authenticator.ts';
import type { Invalid } from './claims.ts';
import { ANONYMOUS, type Principal } from './principal.ts';
import { ProxyHeaders, proxyHeaders } from './proxy-headers.ts';
import { type May, mayOf } from './roles.ts';
import { ServiceKey, ServiceKeys } from './service-keys.ts';
import { identityHeaders, OWN_AUTHORIZATION, receivedHeaders } from './settings.ts';
import { TrustedProxies } from './trusted-proxies.ts';

/** What a listener serves. Its credentials depend on that. */
export type Served = 'mcp' | 'management' | 'inference';

/** Decides who makes the requests to a listener. */
export interface ListenerIdentity {
  readonly authenticate: Authenticate;
  /** Headers that the parser takes out of each request, in lower case. */
  readonly credentialHeaders: ReadonlySet<string> | undefined;
  /** Of requests that are not open; undefined without `identity`. */
  readonly requirement: Exclude<Requirement, 'open'> | undefined;
  /** Returns the address of the client, which a trusted proxy names in X-Forwarded-For; undefined without such proxies. */
  readonly addressOf: ((peer: string | undefined, forwardedFor: string | undefined) => string | undefined) | undefined;
}

/** Who may use the listeners, and do what on that of the management API. */
export interface Identity {
  /** Undefined without `identity`: everybody may do everything. */
  readonly may: May | undefined;
  /** Headers that leave the service in no request, in lower case. */
  readonly droppedHeaders: ReadonlySet<string>;
  /** Number of requests whose identity headers did not count, as their peer is no trusted proxy; undefined without `identity.proxy`. */
  readonly ignored: number | undefined;
  /** Returns the identity of a listener. `namespaceOf`: the namespace whose endpoint a target is. */
  forListener(served: Served, namespaceOf?: (target: string) => string | undefined): ListenerIdentity;
}

const NONE: ReadonlySet<string> = new Set();

/** Returns the identity that the object `identity` describes; without it, headers that name a user are believed from everybody. */
export function createIdentity(settings: IdentitySettings | undefined): Identity {
  if (settings) return new ConfiguredIdentity(settings);
  const listener: ListenerIdentity = {
    authenticate: proxyHeaders(),
    credentialHeaders: undefined,
    requirement: undefined,
    addressOf: undefined,
  };
  return { may: undefined, droppedHeaders: NONE, ignored: undefined, forListener: () => listener };
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

class ConfiguredIdentity implements Identity {
  readonly may: May;
  readonly droppedHeaders: ReadonlySet<string>;
  readonly #settings: IdentitySettings;
  readonly #keys: ServiceKeys;
  readonly #proxies: TrustedProxies | undefined;
  readonly #proxyHeaders: ProxyHeaders | undefined;

  constructor(settings: IdentitySettings) {
    const { proxy, keys, roles, anonymous } = settings;
    this.#settings = settings;
    this.may = mayOf(roles, anonymous);
    this.#keys = new ServiceKeys(keys);
    this.#proxies = proxy && new TrustedProxies(proxy.trusted);
    this.#proxyHeaders = proxy && this.#proxies && new ProxyHeaders(proxy, this.#proxies, []);
    this.droppedHeaders = identityHeaders(settings);
  }

  get ignored(): number | undefined {
    return this.#proxyHeaders?.ignored;
  }

  forListener(served: Served, namespaceOf: (target: string) => string | undefined = () => undefined): ListenerIdentity {
    const { anonymous, inference } = this.#settings;
    const proxies = this.#proxies;
    const isRequired = anonymous === 'deny' && (served === 'mcp' || (served === 'inference' && inference));
    return {
      credentialHeaders: receivedHeaders(this.#settings),
      requirement: isRequired ? 'required' : 'optional',
      addressOf:
        proxies &&
        ((peer, forwardedFor) => proxies.clientAddress(peer, forwardedFor === undefined ? [] : [forwardedFor])),
      authenticate: (head) => this.#byKey(served, head, namespaceOf) ?? this.#byProxy(head),
    };
  }

  /** The principal of a key, and what rejects a request with a credential; undefined without one. */
  #byKey(
    served: Served,
    { peer, target, headers, credentials }: ReceivedHead,
    namespaceOf: (target: string) => string | undefined,
  ): Principal | Rejected | undefined {
    const { keys, proxy } = this.#settings;
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
    if ((isManagement && namespace === undefined) || counts(key, namespace)) return key.principal;
    return invalidToken('the key does not count in this namespace');
  }

  #byProxy({ peer, credentials }: ReceivedHead): Principal | Rejected {
    const found: Principal | Invalid =
      (credentials && this.#proxyHeaders?.authenticate(credentials, peer)) ?? ANONYMOUS;
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

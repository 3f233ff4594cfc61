import type { IdentitySettings, Right } from '@sluice/contract';
import {
  type ActiveIdentity,
  type AddressOf,
  ConfiguredIdentity,
  type IdentityParts,
  type Served,
  type ServedListener,
  suspendedIdentity,
  unconfiguredIdentity,
} from './active-identity.ts';
import type { Authenticate, Authenticated, ReceivedHead, Requirement } from './authenticator.ts';
import type { FetchIssuer } from './issuer-keys.ts';
import type { Principal } from './principal.ts';
import type { RecoveryKeys } from './recovery.ts';
import type { May } from './roles.ts';
import type { ServiceKey } from './service-keys.ts';
import type { SignInReader, SignIns } from './sign-ins.ts';
import type { IssuerParts } from './token-issuer.ts';
import type { Tokens } from './tokens.ts';

/** What the service gives an {@link Identity}. */
export interface IdentityOptions {
  /** Where clients reach the MCP listeners: the begin of the URLs of endpoints, without trailing slash. */
  readonly publicUrl?: string | undefined;
  /** Without it, keys of issuers are read from texts only. */
  readonly fetch?: FetchIssuer;
  /** `Date.now` by default. */
  readonly now?: () => number;
  /** Gets what happens to the keys of token issuers. */
  readonly report?: IssuerParts['report'];
  /** Sign-ins to the console. */
  readonly signIns?: SignIns;
  readonly recovery?: RecoveryKeys | undefined;
}

/** Decides who makes the requests to a listener, always by the active settings. A promise counts unless they were replaced. */
export interface ListenerIdentity extends ServedListener {
  readonly authenticate: Authenticate;
  /** See {@link Identity.reassess}; for a request with this target. */
  readonly reassess: (by: Authenticated, target: string) => Authenticated | undefined;
  /**
   * Headers that the parser takes out of each request, in lower case; undefined without `identity`. Another set once the settings
   * are replaced.
   */
  readonly credentialHeaders: ReadonlySet<string> | undefined;
  /** Of requests that are not open; undefined without `identity`. */
  readonly requirement: Exclude<Requirement, 'open'> | undefined;
  /** Returns the address of the client, which a trusted proxy names in X-Forwarded-For; undefined without such proxies. */
  readonly addressOf: AddressOf | undefined;
}

/** A request, and what has authenticated it. */
export interface Caller {
  readonly head: ReceivedHead;
  authenticated: Authenticated;
}

/**
 * Who may use the listeners, and do what on that of the management API. There is one per process, whose settings can be replaced:
 * no member may be stored.
 */
export class Identity {
  readonly #parts: IdentityParts;
  #active: ActiveIdentity;
  /** Whether all requests are rejected, see {@link suspend}. */
  isSuspended = false;
  /** Requests that earlier settings have ignored. */
  #ignoredBefore = 0;

  /** Without `settings`, headers that name a user are believed from everybody. */
  constructor(settings: IdentitySettings | undefined, options: IdentityOptions = {}) {
    const { publicUrl, fetch = noFetch, now = Date.now, report = () => {}, signIns, recovery } = options;
    this.#parts = { publicUrl, fetch, now, report, signIns, recovery };
    this.#active = this.#activate(settings, undefined);
  }

  /** The active settings. */
  get settings(): IdentitySettings | undefined {
    return this.#active.settings;
  }

  /** Bearer tokens; undefined without `identity`. */
  get tokens(): Tokens | undefined {
    return this.#active.tokens;
  }

  /** Principals of the sign-ins to the console. */
  get signIns(): SignInReader {
    return this.#active.signIns;
  }

  /** Keys of service accounts; one that is being exchanged is listed twice. */
  get keys(): readonly ServiceKey[] {
    return this.#active.keys;
  }

  /** Undefined without `identity`: everybody may do everything. */
  get may(): May | undefined {
    return this.#active.may;
  }

  /** Headers that leave the service in no request, in lower case. Another set once the settings are replaced. */
  get droppedHeaders(): ReadonlySet<string> {
    return this.#active.droppedHeaders;
  }

  /** These, and the header with the credential of clients: no setting can copy them to upstreams. Undefined without `identity`. */
  get receivedHeaders(): ReadonlySet<string> | undefined {
    return this.#active.receivedHeaders;
  }

  /** Number of requests whose identity headers did not count, as their peer is no trusted proxy; undefined without `identity.proxy`. */
  get ignored(): number | undefined {
    const { ignored } = this.#active;
    return ignored === undefined ? undefined : this.#ignoredBefore + ignored;
  }

  /** Activates other settings, which count from the next request on, on every listener and open connection. */
  replace(settings: IdentitySettings | undefined): void {
    const earlier = this.#active;
    this.#active = this.#activate(settings, earlier);
    if (!settings || this.isSuspended) earlier.close();
    this.isSuspended = false;
    this.#ignoredBefore += earlier.ignored ?? 0;
  }

  /** Ends what the settings have begun. */
  close(): void {
    this.#active.close();
  }

  /** Rejects all requests (503), until settings can be read again that this process cannot. */
  suspend(): void {
    if (!this.isSuspended) this.#active = suspendedIdentity(this.#active);
    this.isSuspended = true;
  }

  /**
   * Whether the caller of a management request could administer by other settings, which are applied to the same request: a credential
   * in it that did not count until now may be rejected then, whatever has proven the caller.
   */
  async administers(settings: IdentitySettings, { head }: Pick<Caller, 'head'>): Promise<boolean> {
    const other = new ConfiguredIdentity(settings, this.#parts);
    const listener = { served: 'management', namespaceOf: () => undefined } as const;
    const [found] = await Promise.allSettled([other.authenticate(listener, head)]);
    other.close();
    if (found.status === 'rejected' || found.value.kind === 'rejected') return false;
    return other.may(found.value.principal, 'administer');
  }

  /**
   * Whether what has authenticated a request is not accepted any more after {@link replace}. `before`: {@link may} of the replaced
   * settings; a request of the management API ends if its caller has lost a right, which it may make use of.
   */
  rejects(before: May | undefined, ...[by, served, namespace]: Parameters<Identity['reassess']>): boolean {
    const again = this.reassess(by, served, namespace);
    if (!again || served !== 'management') return !again;
    return RIGHTS.some((right) => has(before, by.principal, right) && !has(this.may, again.principal, right));
  }

  /**
   * Asks again by the active settings, after others were replaced: returns undefined if what has authenticated a request does not
   * count any more on a listener that serves this, at the endpoint of this namespace, or is another principal now. What has expired
   * meanwhile may end what it has begun.
   */
  reassess(by: Authenticated, served: Served, namespace: string | undefined): Authenticated | undefined {
    return this.#active.reassess(by, served, namespace);
  }

  /** Returns the identity of a listener. `namespaceOf`: the namespace whose endpoint a target is. */
  forListener(served: Served, namespaceOf: ServedListener['namespaceOf'] = () => undefined): ListenerIdentity {
    const active = () => this.#active;
    const listener = { served, namespaceOf };
    return {
      ...listener,
      authenticate: (head) => this.#active.authenticate(listener, head),
      reassess: (by, target) => this.reassess(by, served, namespaceOf(target)),
      get credentialHeaders() {
        return served === 'management' ? active().managementHeaders : active().receivedHeaders;
      },
      get requirement() {
        return active().requirementOf(served);
      },
      get addressOf() {
        return active().addressOf;
      },
    };
  }

  #activate(settings: IdentitySettings | undefined, earlier: ActiveIdentity | undefined): ActiveIdentity {
    return settings ? new ConfiguredIdentity(settings, this.#parts, earlier) : unconfiguredIdentity();
  }
}

const RIGHTS = ['read', 'read_bodies', 'change_registry', 'administer'] as const satisfies readonly Right[];

function has(may: May | undefined, principal: Principal, right: Right): boolean {
  return may?.(principal, right) ?? true;
}

const noFetch: FetchIssuer = () => Promise.reject(new Error('no issuer can be reached'));

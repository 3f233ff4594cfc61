import { INVALID_REQUEST } from '@sluice/protocol/mcp/constants';
import { ellipsize, printable } from '@sluice/protocol/text';
import type { Filter } from '../http/chain.ts';
import type { UpstreamTransport } from '../http/client/client.ts';
import { collectResponse } from '../http/client/collect-response.ts';
import type { EgressProxies } from '../http/client/egress-proxies.ts';
import { UpstreamError } from '../http/client/errors.ts';
import { createTransport } from '../http/client/pool.ts';
import type { HttpExchange } from '../http/exchange.ts';
import { forwardedHost, forwardedScheme, type HostRule, refuseForwardedHost } from '../http/host-rule.ts';
import { notFound, type Outcome, type PlainOutcome, rpcError } from '../http/outcome.ts';
import type { PublicUrl } from '../http/public-url.ts';
import { authorizationOf, NO_CREDENTIALS } from '../identity/authenticator.ts';
import type { Identity } from '../identity/identity.ts';
import { parseNamespace } from '../registry/entries.ts';
import type { Registry } from '../registry/registry.ts';
import type { TargetLogger } from '../telemetry/log.ts';

/** Path of the discovery document, below the issuer. */
export const DISCOVERY_PATH = '/.well-known/openid-configuration';

/** Paths that clients use to discover the identity provider. */
const FIXED_PATHS: ReadonlySet<string> = new Set([
  DISCOVERY_PATH,
  '/.well-known/oauth-authorization-server',
  '/authorize',
  '/token',
  '/register',
]);
/**
 * The path of the resource that a protected-resource document describes, exactly as its client requests it (RFC 9728, 3.3), and
 * its namespace.
 */
const RESOURCE_PATH = /^\/\.well-known\/oauth-protected-resource\/(([^/]+)\/mcp\/?)$/;

/** True for a path served by `service_well_known`. */
export function isOAuthPath(path: string): boolean {
  return FIXED_PATHS.has(path) || RESOURCE_PATH.test(path);
}

/** The identity provider. Both URLs without trailing slash. */
export interface AuthIssuer {
  readonly issuer: string;
  /** For requests of the service itself; equals `issuer` unless configured. */
  readonly upstreamIssuer: string;
  /**
   * Whether registrations of clients are forwarded like token requests instead of redirected (SERVICE_AUTH_REGISTRATION):
   * clients of the official SDK do not follow a redirect to another origin.
   */
  readonly forwardsRegistration?: boolean;
}

/** Dependencies of the filter. */
export interface WellKnownParts {
  readonly registry: Pick<Registry, 'current'>;
  readonly identity: Pick<Identity, 'settings'>;
  /** The identity provider; without one the filter does nothing. */
  readonly auth: AuthIssuer | undefined;
  /** Proxies for requests to it (default: there are none). */
  readonly proxies?: EgressProxies;
  /** Checks the host that the documents name, where there is no public URL. */
  readonly hostRule: HostRule;
  /** What the addresses in the documents begin with. */
  readonly publicUrl?: PublicUrl | undefined;
  readonly log: TargetLogger;
}

/** Paths below the issuer. */
const TOKEN = '/protocol/openid-connect/token';
const REGISTRATION = '/clients-registrations/openid-connect';

/** Why there are no documents beside those of `ProtectedResource`. */
const OTHER_DOCUMENTS = 'not found: /.well-known/oauth-protected-resource names the authorization servers';

/** Other content codings would be decoded. */
const IDENTITY: readonly string[] = ['accept-encoding', 'identity'];
const PROVIDER_TIMEOUT_MS = 10_000;
const MAX_RESPONSE_BYTES = 1024 * 1024;

/**
 * Serves the metadata documents that name the identity provider, and its endpoints that they list under our own origin. Tokens
 * are validated by the proxy in front. Issuers of tokens that this service verifies have documents of their own.
 */
export function serviceWellKnown(parts: WellKnownParts): Filter {
  const { registry, identity, auth, proxies, hostRule, publicUrl, log } = parts;
  // Without an identity provider, the filter handles no request.
  if (!auth) return () => undefined;
  const identityProvider = openProvider(auth, proxies);
  return (exchange) => {
    const { path, query } = exchange;
    const { method } = exchange.head;
    if (!isOAuthPath(path)) return undefined;
    const provider = `${auth.issuer}/protocol/openid-connect`;
    switch (path) {
      case '/authorize':
        return redirect(302, `${provider}/auth${query}`);
      case '/register':
        if (method === 'POST' && auth.forwardsRegistration)
          return forwardToProvider(exchange, identityProvider, REGISTRATION, log);
        return redirect(method === 'POST' ? 307 : 302, `${auth.issuer}${REGISTRATION}${query}`);
      case '/token':
        return method === 'POST' ? forwardToProvider(exchange, identityProvider, TOKEN, log) : notAllowed('POST');
    }
    const { tokens = [], anonymous } = identity.settings ?? {};
    if (tokens.length > 0) return rpcError(INVALID_REQUEST, OTHER_DOCUMENTS, 404);
    if (method !== 'GET' && method !== 'HEAD') return notAllowed('GET, HEAD');
    const refusal = publicUrl
      ? undefined
      : refuseForwardedHost(hostRule, exchange.request.socket.localAddress, exchange.headers);
    if (refusal) return rpcError(INVALID_REQUEST, refusal.reason, refusal.status);
    const origin = publicUrl?.href ?? originOf(exchange);
    const [, resource, namespace = ''] = RESOURCE_PATH.exec(path) ?? [];
    if (resource === undefined) return document(serverMetadata(origin, auth.issuer));
    // Clients without a credential do not learn which namespaces there are.
    const isFound = anonymous === 'deny' ? parseNamespace(namespace) : registry.current.namespace(namespace);
    if (!isFound) return notFound(INVALID_REQUEST, 'namespace not found', 404);
    return document({
      resource: `${origin}/${resource}`,
      authorization_servers: [origin],
      bearer_methods_supported: ['header'],
    });
  };
}

/** The origin that the client used, from the headers of the proxy in front or the request itself. */
function originOf({ headers, head }: HttpExchange): string {
  return `${forwardedScheme(headers) ?? head.scheme}://${forwardedHost(headers) ?? headers.host ?? 'localhost'}`;
}

/** The authorization server metadata (RFC 8414, OpenID Connect Discovery). `origin` may have a path. */
function serverMetadata(origin: string, issuer: string): object {
  return {
    issuer: origin,
    authorization_endpoint: `${origin}/authorize`,
    token_endpoint: `${origin}/token`,
    registration_endpoint: `${origin}/register`,
    jwks_uri: `${issuer}/protocol/openid-connect/certs`,
    userinfo_endpoint: `${issuer}/protocol/openid-connect/userinfo`,
    response_types_supported: ['code'],
    grant_types_supported: ['authorization_code', 'refresh_token'],
    code_challenge_methods_supported: ['S256'],
    subject_types_supported: ['public'],
    id_token_signing_alg_values_supported: ['RS256'],
    token_endpoint_auth_methods_supported: ['none', 'client_secret_basic', 'client_secret_post'],
  };
}

/** Connections to the provider; they end when they are idle. */
interface ProviderConnection {
  readonly transport: UpstreamTransport;
  /** Path of the issuer. */
  readonly path: string;
}

function openProvider({ upstreamIssuer }: AuthIssuer, proxies?: EgressProxies): ProviderConnection {
  const url = new URL(upstreamIssuer);
  const transport = createTransport(url.origin, { proxy: proxies?.for(url), defaultHeaders: IDENTITY });
  return { transport, path: url.pathname.replace(/\/$/, '') };
}

/** Forwards a request to an endpoint of the provider: its body and the client's credentials. */
async function forwardToProvider(
  { head, headers, body }: HttpExchange,
  { transport, path }: ProviderConnection,
  endpoint: string,
  log: TargetLogger,
): Promise<Outcome> {
  const { 'content-type': type } = headers;
  const [authorization = headers.authorization] = authorizationOf(head.credentials ?? NO_CREDENTIALS);
  const sent = [
    ...(type === undefined ? [] : ['content-type', type]),
    ...(authorization === undefined ? [] : ['authorization', authorization]),
  ];
  try {
    const response = await collectResponse(
      transport,
      { method: 'POST', path: path + endpoint, headers: sent, body: body.concat() },
      { maxBytes: MAX_RESPONSE_BYTES, timeoutMs: PROVIDER_TIMEOUT_MS },
    );
    const { 'content-type': answerType } = response.headers;
    const responseHeaders = [
      'Content-Type',
      typeof answerType === 'string' ? answerType : 'application/json',
      'Cache-Control',
      'no-store',
    ];
    return { kind: 'plain', status: response.status, headers: responseHeaders, body: response.body.toString() };
  } catch (error) {
    log.warn(endpoint === TOKEN ? 'token endpoint unreachable' : 'registration endpoint unreachable', { error });
    return json(503, { error: 'temporarily_unavailable' });
  }
}

function json(status: number, value: object): PlainOutcome {
  return { kind: 'plain', status, headers: ['Content-Type', 'application/json'], body: JSON.stringify(value) };
}

/** A document that depends on the headers of its request: a cache must not serve it to others. */
function document(value: object): PlainOutcome {
  const { headers = [], ...rest } = json(200, value);
  return {
    ...rest,
    headers: [...headers, 'Cache-Control', 'no-store', 'Vary', 'Host, X-Forwarded-Host, X-Forwarded-Proto'],
  };
}

function redirect(status: number, location: string): PlainOutcome {
  return { kind: 'plain', status, headers: ['Location', location] };
}

function notAllowed(allow: string): PlainOutcome {
  return { kind: 'plain', status: 405, headers: ['Allow', allow] };
}

/** Longest quoted issuer of a provider. */
const MAX_ISSUER_LENGTH = 200;

/** Reads the issuer that the provider names in its discovery document. Never rejects. */
export async function readIssuer(
  auth: AuthIssuer,
  proxies?: EgressProxies,
  timeoutMs = 5_000,
): Promise<{ readonly issuer: string } | { readonly problem: string }> {
  const { transport, path } = openProvider(auth, proxies);
  try {
    const request = { method: 'GET', path: path + DISCOVERY_PATH, headers: [] };
    const { status, body } = await collectResponse(transport, request, { maxBytes: MAX_RESPONSE_BYTES, timeoutMs });
    if (status !== 200) return { problem: `the discovery document has status ${status}` };
    const document: unknown = JSON.parse(body.toString());
    const issuer = typeof document === 'object' && document !== null && 'issuer' in document && document.issuer;
    if (typeof issuer === 'string') return { issuer: ellipsize(printable(issuer), MAX_ISSUER_LENGTH) };
  } catch (error) {
    if (error instanceof UpstreamError && error.kind === 'redirect') {
      return { problem: `the discovery document has status ${error.status}` };
    }
    return { problem: 'the discovery document cannot be read' };
  } finally {
    void transport.close();
  }
  return { problem: 'the discovery document names no issuer' };
}

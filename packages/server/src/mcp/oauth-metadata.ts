import { INVALID_REQUEST } from '@sluice/protocol/mcp/constants';
import type { AuthIssuer } from '../app/config/environment.ts';
import type { Filter } from '../http/chain.ts';
import { type Outcome, type PlainOutcome, type RequestContext, rpcError } from '../http/context.ts';
import { ChunkBuffer } from '../http/request-body.ts';
import type { Registry } from '../registry/registry.ts';
import type { TargetLogger } from '../telemetry/log.ts';

/** The paths by which clients find their identity provider (decisions 5.1); they are no MCP endpoints. */
const FIXED: ReadonlySet<string> = new Set([
  '/.well-known/openid-configuration',
  '/.well-known/oauth-authorization-server',
  '/authorize',
  '/token',
  '/register',
]);
const RESOURCE = /^\/\.well-known\/oauth-protected-resource\/([^/]+)\/mcp$/;

/** True for a path that `service_well_known` answers. */
export function isOAuthPath(path: string): boolean {
  return FIXED.has(path) || RESOURCE.test(path);
}

/** The namespace whose protected-resource document is asked for, as the path spells it; undefined for other paths. */
export function protectedResource(path: string): string | undefined {
  return RESOURCE.exec(path)?.[1];
}

/** What the filter works with. */
export interface WellKnownParts {
  readonly registry: Pick<Registry, 'current'>;
  /** The identity provider; undefined where there is none, and nothing is answered. */
  readonly auth: AuthIssuer | undefined;
  readonly log: TargetLogger;
}

const TOKEN_TIMEOUT_MS = 10_000;
/** Of the identity provider's answer, in bytes: it has a few tokens. */
const MAX_TOKEN_BYTES = 1024 * 1024;

/**
 * Leads clients to the identity provider (decisions 5.1): the documents that name it, and what they name as ours and is
 * the provider's. Nothing is judged here; tokens are checked by the proxy in front.
 */
export function serviceWellKnown({ registry, auth, log }: WellKnownParts): Filter {
  return (context) => {
    const { path, query, method } = context;
    if (!auth || !isOAuthPath(path)) return undefined;
    const provider = `${auth.issuer}/protocol/openid-connect`;
    switch (path) {
      case '/authorize':
        return redirect(302, `${provider}/auth${query}`);
      case '/register':
        return redirect(method === 'POST' ? 307 : 302, `${auth.issuer}/clients-registrations/openid-connect${query}`);
      case '/token':
        return method === 'POST' ? token(context, auth, log) : notAllowed('POST');
    }
    if (method !== 'GET' && method !== 'HEAD') return notAllowed('GET, HEAD');
    const origin = originOf(context);
    const namespace = protectedResource(path);
    if (namespace === undefined) return json(200, serverMetadata(origin, auth.issuer));
    if (!registry.current.namespace(namespace)) return rpcError(INVALID_REQUEST, 'namespace not found', 404);
    return json(200, {
      resource: `${origin}/${namespace}/mcp`,
      authorization_servers: [origin],
      bearer_methods_supported: ['header'],
    });
  };
}

/** Where the client has found us, as the proxy in front says or the request itself. */
function originOf({ headers, scheme }: RequestContext): string {
  const { 'x-forwarded-proto': proto, 'x-forwarded-host': host } = headers;
  return `${first(proto) ?? scheme}://${first(host) ?? headers.host ?? 'localhost'}`;
}

/** Several proxies name themselves one after the other, the client's own first. */
function first(value: string | string[] | undefined): string | undefined {
  const text = value?.toString().split(',', 1)[0]?.trim();
  return text === undefined || /[^\w.:[\]-]/.test(text) || text === '' ? undefined : text;
}

/** What the discovery document says (RFC 8414, OpenID Connect Discovery). */
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

/** Has the provider answer a request for a token: its body, and what authenticates the client. */
async function token({ headers, body }: RequestContext, auth: AuthIssuer, log: TargetLogger): Promise<Outcome> {
  const { 'content-type': type, authorization } = headers;
  try {
    const answer = await fetch(`${auth.upstreamIssuer}/protocol/openid-connect/token`, {
      method: 'POST',
      headers: {
        ...(type !== undefined && { 'content-type': type }),
        ...(authorization !== undefined && { authorization }),
      },
      body,
      redirect: 'error',
      signal: AbortSignal.timeout(TOKEN_TIMEOUT_MS),
    });
    const text = await textOf(answer);
    const passed = [
      'Content-Type',
      answer.headers.get('content-type') ?? 'application/json',
      'Cache-Control',
      'no-store',
    ];
    return { kind: 'plain', status: answer.status, headers: passed, body: text };
  } catch (error) {
    log.warn('the identity provider gave no answer to a request for a token', { error });
    return json(503, { error: 'temporarily_unavailable' });
  }
}

/** What it holds, as text; throws once there is more than {@link MAX_TOKEN_BYTES} of it, and reads no further. */
async function textOf({ body }: Response): Promise<string> {
  const held = new ChunkBuffer();
  for await (const piece of body ?? []) {
    if (held.length + piece.length > MAX_TOKEN_BYTES) {
      throw new Error(`the answer has more than the ${MAX_TOKEN_BYTES} bytes that one with tokens may have`);
    }
    held.push(Buffer.from(piece));
  }
  return held.take().toString();
}

function json(status: number, value: object): PlainOutcome {
  return { kind: 'plain', status, headers: ['Content-Type', 'application/json'], body: JSON.stringify(value) };
}

function redirect(status: number, location: string): PlainOutcome {
  return { kind: 'plain', status, headers: ['Location', location] };
}

function notAllowed(allow: string): PlainOutcome {
  return { kind: 'plain', status: 405, headers: ['Allow', allow] };
}

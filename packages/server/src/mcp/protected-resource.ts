import type { Rejection } from '../http/host-rule.ts';
import type { PlainOutcome } from '../http/outcome.ts';
import { namespaceSegment, type PublicUrl, pathOf } from '../http/public-url.ts';
import type { Identity } from '../identity/identity.ts';
import { parseNamespace } from '../registry/entries.ts';

/** Path of the metadata of all endpoints; the path of one endpoint follows it. */
const METADATA = '/.well-known/oauth-protected-resource';

/**
 * Tells clients without a valid token which issuers have one for an endpoint: in protected resource metadata (RFC 9728), whose URL is
 * in the challenge of each 401. It does so for each valid name of a namespace, whether there is one or not, and for none as long as
 * the settings have no tokens.
 */
export class ProtectedResource {
  readonly #identity: Pick<Identity, 'settings'>;
  readonly #publicUrl: PublicUrl;

  /** `publicUrl`: where clients reach the endpoints. */
  constructor(identity: Pick<Identity, 'settings'>, publicUrl: PublicUrl) {
    this.#identity = identity;
    this.#publicUrl = publicUrl;
  }

  /** Whether {@link respond} has a response. `path`: without the prefix of the public URL. */
  serves(method: string, path: string): boolean {
    return method !== 'OPTIONS' && resourceAt(path) !== undefined && this.#issuers.length > 0;
  }

  /** Returns the response to a request for metadata; undefined for other requests. Part of the hot path. */
  respond(method: string, path: string): PlainOutcome | undefined {
    if (!this.serves(method, path)) return undefined;
    if (method !== 'GET' && method !== 'HEAD') return { kind: 'plain', status: 405, headers: ['Allow', 'GET, HEAD'] };
    const metadata = {
      resource: this.#publicUrl.href + resourceAt(path),
      authorization_servers: this.#issuers,
      bearer_methods_supported: ['header'],
    };
    return { kind: 'plain', status: 200, headers: HEADERS, body: JSON.stringify(metadata) };
  }

  /** Adds the URL of the metadata to the challenge of a rejection with status 401. It is below the prefix, where each proxy sends it. */
  challenge(rejection: Rejection, target: string): Rejection {
    const { status, headers = [] } = rejection;
    if (status !== 401 || this.#issuers.length === 0) return rejection;
    const path = pathOf(target, this.#publicUrl);
    const parameter = `resource_metadata="${this.#publicUrl.href}${METADATA}${isEndpoint(path) ? path : ''}"`;
    const challenged = headers.map((text, at) => {
      if (headers[at - 1] !== 'WWW-Authenticate') return text;
      return text.includes(' ') ? `${text}, ${parameter}` : `${text} ${parameter}`;
    });
    return { ...rejection, headers: challenged };
  }

  get #issuers(): readonly string[] {
    const { tokens = [] } = this.#identity.settings ?? {};
    return tokens.map(({ issuer }) => issuer);
  }
}

const HEADERS: readonly string[] = ['Content-Type', 'application/json', 'Cache-Control', 'no-store'];

/** Returns the path of the endpoint whose metadata are at this path, exactly as clients use it; empty for those of all. */
function resourceAt(path: string): string | undefined {
  if (!path.startsWith(METADATA)) return undefined;
  const resource = path.slice(METADATA.length);
  return resource === '' || isEndpoint(resource) ? resource : undefined;
}

function isEndpoint(path: string): boolean {
  const name = namespaceSegment(path);
  return name !== undefined && parseNamespace(name) !== undefined;
}

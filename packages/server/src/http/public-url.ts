import { parseHttpUrl } from './address.ts';
import { textSchema } from './settings.ts';

/** Address at which clients reach a listener through a proxy. */
export interface PublicUrl {
  /** What every address that is sent to clients begins with: origin and prefix, without trailing slash. */
  readonly href: string;
  /** As browsers send it. */
  readonly origin: string;
  /** Host without port, in lower case; IPv6 in brackets. */
  readonly host: string;
  /** Path below which the proxy serves the listener; empty if there is none. */
  readonly prefix: string;
}

/** Schema of a {@link PublicUrl}: `https://host/path`. */
export const publicUrl = textSchema(
  'an http or https URL without credentials, query or fragment',
  (text): PublicUrl => {
    const { origin, hostname, pathname } = parseHttpUrl(text);
    const prefix = pathname.replace(/\/+$/, '');
    return { href: `${origin}${prefix}`, origin, host: hostname, prefix };
  },
);

/** Path of a metadata document, whose name is followed by the path of what it describes (RFC 8414 3.1, RFC 9728 3.1). */
const WELL_KNOWN = /^\/\.well-known\/[^/?]+/;

/** Path of an endpoint without its namespace: there is none, so that its first segment is no prefix but a namespace. */
const NO_ENDPOINT = /^\/mcp\/?(?:\?|$)/;

/**
 * Removes the prefix of a public URL from a request target, also behind the name of a metadata document: some proxies remove it,
 * and others do not. Targets without it are unchanged.
 */
export function withoutPrefix(target: string, { prefix }: Pick<PublicUrl, 'prefix'>): string {
  if (prefix === '') return target;
  const [name = ''] = WELL_KNOWN.exec(target) ?? [];
  const rest = target.slice(name.length);
  if (!rest.startsWith(prefix)) return target;
  const path = rest.slice(prefix.length);
  if (path === '' || path.startsWith('?')) return name === '' ? `/${path}` : `${name}${path}`;
  return path.startsWith('/') && !NO_ENDPOINT.test(path) ? `${name}${path}` : target;
}

/** Returns the path of a request target, without the prefix and the query. */
export function pathOf(target: string, publicUrl: Pick<PublicUrl, 'prefix'> | undefined): string {
  return (publicUrl ? withoutPrefix(target, publicUrl) : target).split('?', 1)[0] ?? '';
}

const MCP = '/mcp';

/** First segment of the path `/{namespace}/mcp` of an MCP endpoint; undefined for other paths. Part of the hot path. */
export function namespaceSegment(path: string): string | undefined {
  const end = (path.endsWith('/') ? path.length - 1 : path.length) - MCP.length;
  if (!path.startsWith('/') || !path.startsWith(MCP, end)) return undefined;
  const segment = path.slice(1, end);
  return segment === '' || segment.includes('/') ? undefined : segment;
}

import { isIPv4 } from 'node:net';

/** What a listener accepts in `Host` and `Origin`. Both as the configuration parsed them: lower case, no default port. */
interface GuardOptions {
  /** SERVICE_ALLOWED_HOSTS; one without a port stands for that host with any port. */
  readonly allowedHosts: readonly string[] | undefined;
  /** SERVICE_CORS_ORIGIN: `*` or one origin. */
  readonly corsOrigin: string | undefined;
}

/** Why a request is refused: answered with this status, and the reason names the header. */
interface Refusal {
  readonly status: 403;
  readonly reason: string;
}

/**
 * Judges a request by the address its connection came in on and its `Host` and `Origin` headers; undefined lets it
 * pass.
 */
export type Guard = (
  localAddress: string | undefined,
  host: string | undefined,
  origin: string | undefined,
) => Refusal | undefined;

/** Accepted values that are remembered. What clients send is theirs to choose, so the memory is bounded. */
const REMEMBERED = 512;

/**
 * The checks of mcp 6 that every listener makes, so that a web page can neither call a local service nor reach one by
 * rebinding its own name to the service's address. A connection to a loopback address must name a loopback host or one
 * of `allowedHosts`; any other connection may name every host unless `allowedHosts` is set. An `Origin` must be
 * loopback, the origin of `Host`, or `corsOrigin`.
 *
 * Runs per request: values that were accepted once cost a look-up.
 */
export function createHostOriginGuard({ allowedHosts, corsOrigin }: GuardOptions): Guard {
  const allowed = new Set(allowedHosts);
  const restricted = allowedHosts !== undefined;
  const localHosts = new Set<string>();
  const otherHosts = new Set<string>();
  const origins = new Set<string>();
  const sameOrigins = new Set<string>();

  const hostPasses = (host: string, local: boolean): boolean => {
    const parts = splitHost(host);
    if (!parts) return false;
    if (allowed.has(parts.host) || allowed.has(`${parts.host}:${parts.port}`)) return true;
    return local && isLoopback(parts.host);
  };

  const originPasses = (origin: string): boolean =>
    corsOrigin === '*' || origin.toLowerCase() === corsOrigin || isLoopback(hostOfOrigin(origin) ?? '');

  return (localAddress, host, origin) => {
    const local = isLoopbackAddress(localAddress);
    if (local || restricted) {
      if (host === undefined) return { status: 403, reason: 'a Host header is required' };
      const known = local ? localHosts : otherHosts;
      if (!known.has(host)) {
        if (!hostPasses(host, local)) {
          return { status: 403, reason: `Host not allowed: ${shown(host)}; SERVICE_ALLOWED_HOSTS names further ones` };
        }
        remember(known, host);
      }
    }
    if (origin === undefined || origins.has(origin)) return undefined;
    if (originPasses(origin)) {
      remember(origins, origin);
      return undefined;
    }
    const pair = `${host} ${origin}`;
    if (sameOrigins.has(pair)) return undefined;
    if (host === undefined || !isSameOrigin(origin, host)) {
      return { status: 403, reason: `Origin not allowed: ${shown(origin)}; SERVICE_CORS_ORIGIN names a further one` };
    }
    remember(sameOrigins, pair);
    return undefined;
  };
}

function remember(known: Set<string>, value: string): void {
  if (known.size >= REMEMBERED) known.clear();
  known.add(value);
}

/** A refused value in a message: cut, since it can be as long as a head. */
function shown(value: string): string {
  return value.length > 200 ? `${value.slice(0, 200)}...` : value;
}

/** Splits a Host value; the host in lower case, IPv6 in brackets. Undefined when it is none. */
function splitHost(value: string): { host: string; port: string } | undefined {
  const match = /^(\[[\da-f:.]+\]|[^\s:/?#@[\]\\]+)(?::(\d*))?$/i.exec(value);
  return match ? { host: (match[1] ?? '').toLowerCase(), port: match[2] ?? '' } : undefined;
}

/** The host of an http(s) origin, in lower case, IPv6 in brackets. */
function hostOfOrigin(origin: string): string | undefined {
  const match = /^https?:\/\/(.+)$/i.exec(origin);
  return match ? splitHost(match[1] ?? '')?.host : undefined;
}

/**
 * Whether the origin is that of a page from this host. Scheme and default port are the page's: in front of the service
 * a proxy may end TLS.
 */
function isSameOrigin(origin: string, host: string): boolean {
  const match = /^(https?):\/\/(.+)$/i.exec(origin);
  const page = match && splitHost(match[2] ?? '');
  const target = splitHost(host);
  if (!page || !target) return false;
  const defaultPort = match[1]?.toLowerCase() === 'https' ? '443' : '80';
  return page.host === target.host && (page.port || defaultPort) === (target.port || defaultPort);
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '[::1]' || (host.startsWith('127.') && isIPv4(host));
}

/** The address that a connection came in on; IPv4 appears as `::ffff:127.0.0.1` on a dual-stack listener. */
function isLoopbackAddress(address: string | undefined): boolean {
  if (address === undefined) return false;
  return address.startsWith('127.') || address === '::1' || address.startsWith('::ffff:127.');
}

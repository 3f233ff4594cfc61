import type { IncomingHttpHeaders } from 'node:http';
import { detach } from '@sluice/protocol/text';
import { LOOPBACK_ADDRESS } from './address.ts';
import {
  createHostRule,
  type HostRuleOptions,
  isLoopback,
  type Rejection,
  refuseHost,
  shortened,
  splitHost,
} from './host-rule.ts';

/** Accepted values of `Host` and `Origin`, as parsed by the configuration: lower case, no default port. */
interface GuardOptions extends HostRuleOptions {
  /** SERVICE_CORS_ORIGIN: `*` or one origin. */
  readonly corsOrigin: string | undefined;
}

/**
 * Checks the `Host` and `Origin` headers of a request on a connection to `localAddress`. Returns why the request is
 * rejected, or undefined. `isProbe`: a health check, whose `Host` may be anything on connections from other machines.
 */
export type HostOriginGuard = (
  localAddress: string | undefined,
  headers: Pick<IncomingHttpHeaders, 'host' | 'origin'>,
  isProbe?: boolean,
) => Rejection | undefined;

/**
 * Creates the guard of a listener against cross-origin requests and DNS rebinding: `Host` follows {@link createHostRule};
 * `Origin` must be a loopback origin, the origin of `Host`, that of the public URL, or `corsOrigin`.
 *
 * Runs per request: values that were accepted before cost one lookup.
 */
export function createHostOriginGuard({ corsOrigin, ...hosts }: GuardOptions): HostOriginGuard {
  const rule = createHostRule(hosts);
  const publicOrigin = hosts.publicUrl?.origin;
  const restricted = hosts.allowedHosts !== undefined && !hosts.allowedHosts.includes('*');
  const localHosts = new Set<string>();
  const otherHosts = new Set<string>();
  const origins = new Set<string>();
  const sameOrigins = new Set<string>();
  const isAllowedOrigin = (origin: string): boolean =>
    corsOrigin === '*' ||
    [corsOrigin, publicOrigin].includes(origin.toLowerCase()) ||
    isLoopback(splitOrigin(origin)?.host ?? '');

  return (localAddress, { host, origin }, isProbe = false) => {
    const local = localAddress !== undefined && LOOPBACK_ADDRESS.test(localAddress);
    const refuse = (rejection: Rejection): Rejection => ({
      ...rejection,
      isForeignOrigin: origin !== undefined && !isAllowedOrigin(origin),
    });
    if (local || !isProbe) {
      // A browser always sends Host.
      if (host === undefined && (local || restricted))
        return refuse({ status: 403, reason: 'a Host header is required' });
      const cache = local ? localHosts : otherHosts;
      if (host !== undefined && !cache.has(host)) {
        if (!rule(localAddress, host)) return refuse(refuseHost('Host', host));
        addToCache(cache, host);
      }
    }
    if (origin === undefined || origins.has(origin)) return undefined;
    if (isAllowedOrigin(origin)) {
      addToCache(origins, origin);
      return undefined;
    }
    const pair = `${host} ${origin}`;
    if (sameOrigins.has(pair)) return undefined;
    if (host === undefined || !isSameOrigin(origin, host)) {
      return {
        status: 403,
        reason: `Origin not allowed: ${shortened(origin)}; set SERVICE_CORS_ORIGIN to allow it`,
        isForeignOrigin: true,
      };
    }
    addToCache(sameOrigins, pair);
    return undefined;
  };
}

/** Maximum number of accepted values in a cache: clients choose the values. */
const MAX_CACHED = 512;

function addToCache(cache: Set<string>, value: string): void {
  if (cache.size >= MAX_CACHED) cache.clear();
  cache.add(detach(value));
}

/** Splits an http(s) origin like {@link splitHost}; `defaultPort` is that of its scheme. */
function splitOrigin(origin: string) {
  const [, secure, authority = ''] = /^http(s?):\/\/(.+)$/i.exec(origin) ?? [];
  const page = splitHost(authority);
  return page && { ...page, defaultPort: secure ? '443' : '80' };
}

/**
 * Returns whether the origin is that of a page of this host. Scheme and default port are taken from the origin: a proxy in
 * front of the service may terminate TLS.
 */
function isSameOrigin(origin: string, host: string): boolean {
  const page = splitOrigin(origin);
  const target = splitHost(host);
  if (!page || !target) return false;
  const { defaultPort } = page;
  return page.host === target.host && (page.port || defaultPort) === (target.port || defaultPort);
}

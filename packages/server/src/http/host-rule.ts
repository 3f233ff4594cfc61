import type { IncomingHttpHeaders } from 'node:http';
import { isIPv4, isIPv6 } from 'node:net';
import { hostname } from 'node:os';
import { ellipsize } from '@sluice/protocol/text';
import { LOOPBACK_ADDRESS } from './address.ts';
import type { PublicUrl } from './public-url.ts';

/** Reason why a request is rejected before it is served. */
export interface Rejection {
  readonly status: number;
  readonly reason: string;
  /** The `Origin` of the request is not accepted, so that its page must not read the response. */
  readonly isForeignOrigin?: boolean;
  /** Further headers of the response: names and values, alternating. */
  readonly headers?: readonly string[];
}

/** Host values as parsed by the configuration: lower case. */
export interface HostRuleOptions {
  /** SERVICE_ALLOWED_HOSTS; a value without a port matches any port, `*` matches every host. */
  readonly allowedHosts: readonly string[] | undefined;
  /** Public URL of the listener: its host is accepted in addition. */
  readonly publicUrl?: Pick<PublicUrl, 'host' | 'origin'> | undefined;
  /** Name of this machine (default: that of the system). */
  readonly machine?: string;
}

/** Returns whether a `Host` value is accepted on a connection to `localAddress`. */
export type HostRule = (localAddress: string | undefined, host: string) => boolean;

/** Domains that no public name server answers for, so that a foreign page cannot be served from a name in them. */
const INTERNAL_DOMAIN = /\.(?:local|localhost|internal|svc|cluster\.local|home\.arpa)$/;

/**
 * Creates the rule against DNS rebinding: a page of a foreign name that resolves to this machine sends that name as `Host`. On
 * connections to a loopback address, loopback hosts and `allowedHosts` are accepted; on others IP addresses and `allowedHosts`,
 * or, if these are unset, names that are not public.
 */
export function createHostRule({ allowedHosts, publicUrl, machine = hostname() }: HostRuleOptions): HostRule {
  const allowed = new Set(allowedHosts);
  if (publicUrl) allowed.add(publicUrl.host);
  const ownName = machine.toLowerCase();

  return (localAddress, value) => {
    if (allowed.has('*')) return true;
    const local = localAddress !== undefined && LOOPBACK_ADDRESS.test(localAddress);
    const parts = splitHost(value);
    if (!parts) return false;
    const { host, port } = parts;
    if (allowed.has(host) || allowed.has(`${host}:${port}`)) return true;
    if (local) return isLoopback(host);
    return isIp(host) || (allowedHosts === undefined && isInternal(host, ownName));
  };
}

/** Maximum length of a rejected value in a message. */
const MAX_VALUE_LENGTH = 200;

/** Shortens a rejected value for a message. */
export function shortened(value: string): string {
  return ellipsize(value, MAX_VALUE_LENGTH);
}

/** Rejects the value of a header that names a host. */
export function refuseHost(header: 'Host' | 'X-Forwarded-Host', value: string): Rejection {
  return { status: 403, reason: `${header} not allowed: ${shortened(value)}; set SERVICE_ALLOWED_HOSTS to allow it` };
}

/** Splits a Host value; the host in lower case, IPv6 in brackets. Undefined if the value is invalid. */
export function splitHost(value: string): { host: string; port: string } | undefined {
  const match = /^(\[[\da-f:.]+\]|[^\s:/?#@[\]\\]+)(?::(\d*))?$/i.exec(value);
  return match ? { host: (match[1] ?? '').toLowerCase(), port: match[2] ?? '' } : undefined;
}

/** Returns whether a host is that of the loopback interface. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '[::1]' || (host.startsWith('127.') && isIPv4(host));
}

function isIp(host: string): boolean {
  return isIPv4(host) || (host.startsWith('[') && isIPv6(host.slice(1, -1)));
}

/** A name that only this machine or network resolves: its own, one without a dot, or one of an internal domain. */
function isInternal(host: string, ownName: string): boolean {
  const name = host.replace(/\.$/, '');
  return name === ownName || !name.includes('.') || INTERNAL_DOMAIN.test(name);
}

/** The first value of a header: each proxy appends its own. */
function first(value: string | string[] | undefined): string | undefined {
  return value?.toString().split(',', 1)[0]?.trim() || undefined;
}

/** The scheme that the client used, according to a proxy in front; undefined without a valid one. */
export function forwardedScheme({ 'x-forwarded-proto': value }: IncomingHttpHeaders): 'http' | 'https' | undefined {
  const scheme = first(value)?.toLowerCase();
  return scheme === 'http' || scheme === 'https' ? scheme : undefined;
}

/** The host that the client used, according to a proxy in front. Check it with the {@link HostRule}. */
export function forwardedHost({ 'x-forwarded-host': value }: IncomingHttpHeaders): string | undefined {
  return first(value);
}

/** Returns why the `X-Forwarded-Host` of a request is rejected where it is used; undefined if it is not. */
export function refuseForwardedHost(
  rule: HostRule,
  localAddress: string | undefined,
  headers: IncomingHttpHeaders,
): Rejection | undefined {
  const host = forwardedHost(headers);
  return host === undefined || rule(localAddress, host) ? undefined : refuseHost('X-Forwarded-Host', host);
}

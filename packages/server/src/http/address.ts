import { isIPv4, isIPv6 } from 'node:net';
import { commaList, InvalidSettingError, textSchema } from './settings.ts';

/** Address of a listener or server. `host` has no brackets; with port 0 the system chooses one. */
export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

/** Address of an HTTP upstream. `host` has no brackets, `path` begins with `/` or is empty. */
export interface HttpUpstream {
  readonly scheme: 'http' | 'https';
  readonly host: string;
  readonly port: number;
  readonly path: string;
}

const HOST_NAME = /^(?!-)[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*\.?$/;

function isHost(text: string): boolean {
  // Digits and dots alone are an IPv4 address or a mistyped one, never a name.
  if (/^[\d.]+$/.test(text)) return isIPv4(text);
  // URLs must not have a name that ends in a number, such as `a.8`.
  return text.length <= 253 && HOST_NAME.test(text) && URL.canParse(`http://${text}`);
}

/** Splits `host`, `host:port`, `[v6]` and `[v6]:port`; the returned host has no brackets. */
function splitHost(text: string): { host: string; port: number | undefined } {
  if (isIPv6(text) || /^[0-9a-f]*:[0-9a-f:.]*:[0-9a-f:.]*$/i.test(text)) {
    throw new InvalidSettingError('has an IPv6 host without brackets');
  }
  const parts = /^(?:\[([^[\]]*)\]|([^:[\]]*))(?::(.*))?$/s.exec(text);
  if (parts === null) throw new InvalidSettingError('is not host:port');
  const [, bracketed, plain = '', digits] = parts;
  const host = bracketed ?? plain;
  if (host === '') throw new InvalidSettingError('has no host');
  if (bracketed !== undefined ? !isIPv6(host) : !isHost(host)) throw new InvalidSettingError('has an invalid host');
  if (digits === undefined) return { host, port: undefined };
  if (!/^\d{1,5}$/.test(digits) || Number(digits) > 65_535)
    throw new InvalidSettingError('has an invalid port: must be 0–65535');
  return { host, port: Number(digits) };
}

/** `host:port`, IPv6 as `[::]:port`. */
export const listenAddress = textSchema('host:port, such as 0.0.0.0:8080 or [::]:8080', (text): ListenAddress => {
  const { host, port } = splitHost(text);
  if (port === undefined) throw new InvalidSettingError('has no port');
  return { host, port };
});

/** Formats an address as `host:port`, an IPv6 host in brackets: the inverse of {@link listenAddress}. */
export function formatAddress({ host, port }: ListenAddress): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** Returns host and port of an http or https URL. */
export function endpointOf({ hostname, port, protocol }: URL): ListenAddress {
  const host = hostname.replace(/^\[|\]$/g, '');
  return { host, port: Number(port || (protocol === 'https:' ? 443 : 80)) };
}

/** Addresses of all interfaces, as the URL parser normalizes them. */
const WILDCARDS: ReadonlySet<string> = new Set(['0.0.0.0', '::', '::ffff:0:0']);

/** Returns whether a listener on this host is reached through every interface of the machine. */
export function isWildcard(host: string): boolean {
  return WILDCARDS.has(normalizeHost(host));
}

/** Lower case, IPv6 in its shortest form. */
export function normalizeHost(host: string): string {
  return isIPv6(host) ? (URL.parse(`http://[${host}]`)?.hostname.slice(1, -1) ?? host) : host.toLowerCase();
}

/** IP addresses of the loopback interface; dual-stack listeners see IPv4 as `::ffff:127.0.0.1`. */
export const LOOPBACK_ADDRESS: RegExp = /^(?:127\.|::1$|::ffff:127\.)/;

/** Returns whether other machines can reach a bound address, `host:port`. */
export function isReachable(address: string): boolean {
  return !LOOPBACK_ADDRESS.test(address.replace(/:\d+$/, '').replace(/^\[|\]$/g, ''));
}

/** The address that a listener binds: with `local` (SERVICE_LOCAL), 127.0.0.1 instead of all interfaces. */
export function bindAddress(address: ListenAddress, local: boolean): ListenAddress {
  return local && isWildcard(address.host) ? { ...address, host: '127.0.0.1' } : address;
}

/** Schema of `host:port`; port 0 is allowed only for addresses that are bound. */
export function addressSchema(withPortZero: boolean) {
  return listenAddress.refine(({ port }) => withPortZero || port > 0, {
    error: 'has an invalid port: must be 1–65535',
  });
}

/** Parses an http(s) URL without credentials, query or fragment, and without anything the URL parser would repair. */
export function parseHttpUrl(text: string): URL {
  if (!/^https?:\/\/[^/?#]/i.test(text) || /[\s\\]/.test(text))
    throw new InvalidSettingError('is not an http or https URL');
  const url = URL.parse(text);
  if (url === null) throw new InvalidSettingError('is not a valid URL');
  if (url.username !== '' || url.password !== '') throw new InvalidSettingError('contains credentials');
  if (/[?#]/.test(text)) throw new InvalidSettingError('contains a query or fragment');
  return url;
}

/** An http(s) URL with an optional path; trailing slashes are removed, so that paths can be appended. */
export const baseUrl = textSchema('an http or https URL without credentials, query or fragment', (text): string => {
  parseHttpUrl(text);
  return text.replace(/\/+$/, '');
});

/** `host:port`, `http://host[:port][/path]` or `https://host[:port][/path]`. */
export const httpUpstream = textSchema(
  'host:port, http://host[:port][/path] or https://host[:port][/path]',
  (text): HttpUpstream => {
    if (!text.includes('://')) {
      const { host, port } = splitHost(text);
      if (port === undefined) throw new InvalidSettingError('has no port');
      return upstream('http', host, port, '');
    }
    const url = parseHttpUrl(text);
    const scheme = url.protocol === 'https:' ? 'https' : 'http';
    const { host, port } = endpointOf(url);
    return upstream(scheme, host, port, url.pathname.replace(/\/+$/, ''));
  },
);

function upstream(scheme: HttpUpstream['scheme'], host: string, port: number, path: string): HttpUpstream {
  if (port === 0) throw new InvalidSettingError('has an invalid port: must be 1–65535');
  return { scheme, host, port, path };
}

/** `*` or one origin, normalized as browsers send it: lower case, without the default port. */
export const corsOrigin = textSchema('* or one origin, such as https://console.example.com', parseOrigin);

/** Parses the text of {@link corsOrigin}. Throws {@link InvalidSettingError}. */
export function parseOrigin(text: string): string {
  if (text === '*') return text;
  if (text.includes(',')) throw new InvalidSettingError('contains several origins');
  if (/^[a-z][a-z\d+.-]*:\/\/[^/]+\/+$/i.test(text)) throw new InvalidSettingError('ends with a slash');
  if (/^https?:/i.test(text)) {
    const url = parseHttpUrl(text);
    if (url.pathname !== '/') throw new InvalidSettingError('has a path');
    return url.origin;
  }
  // Browser extensions and desktop shells have origins with their own schemes.
  if (!/^[a-z][a-z\d+.-]*:\/\/[^/?#@\s\\]+$/i.test(text)) throw new InvalidSettingError('is not an origin');
  return text.toLowerCase();
}

/**
 * Values of the Host header in lower case: `host`, `host:port`, `[v6]` or `[v6]:port`. A value without a port
 * matches any port, `*` every value.
 */
export const hostList = textSchema(
  '* or a comma-separated list of Host values: host, host:port, [ipv6] or [ipv6]:port',
  parseHosts,
);

/** Parses the text of {@link hostList}. Throws {@link InvalidSettingError}. */
export function parseHosts(text: string): readonly string[] {
  const hosts = commaList(text).map((item) => {
    if (item !== '*') splitHost(item);
    return item.toLowerCase();
  });
  if (hosts.length === 0) throw new InvalidSettingError('contains no host');
  return [...new Set(hosts)];
}

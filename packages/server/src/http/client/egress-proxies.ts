import { BlockList, isIP } from 'node:net';
import { domainToASCII } from 'node:url';
import { endpointOf } from '../address.ts';
import { isLoopback } from '../host-rule.ts';
import { ConfigError } from '../settings.ts';

/** HTTP proxy that requests to upstreams are sent through: as tunnels (CONNECT) for https, with whole URLs for http. */
export interface EgressProxy {
  /** Without credentials. */
  readonly url: URL;
  /** Value of `Proxy-Authorization`, if the proxy requires credentials. Never logged and in no message. */
  readonly authorization: string | undefined;
  /** Returns the URL with credentials, for other HTTP clients. */
  readonly href: () => string;
}

/** Setting of one forward: the URL of a proxy, `none`, or undefined for the proxies of the environment. */
export type ProxySetting = string | undefined;

const PROXY_REMEDY = 'check "proxy" of the forward, or HTTPS_PROXY, HTTP_PROXY and NO_PROXY of the service';

interface ProxyErrorDetails {
  readonly cause?: unknown;
  readonly remedy?: string | undefined;
}

/** A failed step of connecting through a proxy. The message names the proxy, without its credentials, and the step. */
export class ProxyError extends Error {
  override readonly name = 'ProxyError';
  /** The message without the remedy. */
  readonly problem: string;
  readonly remedy: string;

  /** `problem` is the predicate, `remedy` what to do about it. */
  constructor({ url }: EgressProxy, problem: string, { cause, remedy = PROXY_REMEDY }: ProxyErrorDetails = {}) {
    const what = `proxy ${url.origin} ${problem}`;
    super(`${what}; ${remedy}`, { cause });
    this.problem = what;
    this.remedy = remedy;
  }
}

/** Variables by the scheme of the upstream; the first that is set counts, as in curl. */
const VARIABLES = { 'http:': ['http_proxy', 'HTTP_PROXY'], 'https:': ['https_proxy', 'HTTPS_PROXY'] } as const;
const EXCEPTIONS = ['no_proxy', 'NO_PROXY'] as const;

/** The proxies of the environment: `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`, also in lower case. */
export class EgressProxies {
  /** Variables in force, for the log: without credentials. */
  readonly variables: Readonly<Record<string, string>>;
  readonly #proxies = new Map<string, EgressProxy>();
  readonly #isException: (host: string, port: number) => boolean;

  /** Throws {@link ConfigError} for a proxy that is not an http or https URL. */
  constructor(env: Readonly<Record<string, string | undefined>> = {}) {
    const variables: Record<string, string> = {};
    for (const [protocol, names] of Object.entries(VARIABLES)) {
      const name = names.find((candidate) => env[candidate]);
      if (name === undefined) continue;
      const proxy = parseProxy(env[name] ?? '');
      if (!proxy)
        throw new ConfigError(`${name}: the value is not the URL of an HTTP proxy; expected http://host:port`);
      this.#proxies.set(protocol, proxy);
      variables[name] = proxy.url.origin;
    }
    const exceptions = EXCEPTIONS.find((name) => env[name]) ?? 'NO_PROXY';
    const list = env[exceptions] ?? '';
    if (list !== '' && this.#proxies.size > 0) variables[exceptions] = list;
    this.#isException = parseExceptions(list);
    this.variables = variables;
  }

  /**
   * Returns the proxy for an http or https URL; undefined for a direct connection. A proxy of the environment is not used for
   * loopback addresses, a proxy that `setting` names is used for all.
   */
  for(url: URL, setting?: ProxySetting): EgressProxy | undefined {
    if (setting === 'none') return undefined;
    if (setting !== undefined) return parseProxy(setting);
    const proxy = this.#proxies.get(url.protocol);
    if (!proxy || isOwnHost(url.hostname)) return undefined;
    const { host, port } = endpointOf(url);
    return this.#isException(bareHost(host), port) ? undefined : proxy;
  }
}

/** Returns undefined for a text that is not the URL of an HTTP proxy; the scheme `http` may be left out. */
function parseProxy(setting: string): EgressProxy | undefined {
  // A variable that was read from a file ends with a line break.
  const text = setting.trim();
  const url = URL.parse(/^[a-z][a-z\d+.-]*:\/\//i.test(text) ? text : `http://${text}`);
  if (!url || (url.protocol !== 'http:' && url.protocol !== 'https:')) return undefined;
  const { username, password } = url;
  const credentials = `${decoded(username)}:${decoded(password)}`;
  const authorization = credentials === ':' ? undefined : `Basic ${Buffer.from(credentials).toString('base64')}`;
  return { url: new URL(url.origin), authorization, href: () => url.href };
}

/** Credentials may contain a `%` that is none of an escape. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Whether a connection to the host ends on this machine: by a loopback address, or by that of no interface. */
function isOwnHost(hostname: string): boolean {
  const host = hostname.replace(/\.$/, '');
  return isLoopback(host) || UNSPECIFIED.has(host) || host.endsWith('.localhost') || host.startsWith('[::ffff:7f');
}

const UNSPECIFIED: ReadonlySet<string> = new Set(['0.0.0.0', '[::]', '[::ffff:0:0]']);

/** Lower case, without the brackets of IPv6 and the dot of the root. */
function bareHost(hostname: string): string {
  return hostname
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/\.$/, '')
    .toLowerCase();
}

/**
 * Parses `NO_PROXY`: `*`, names that stand for themselves and the names below them (with or without `.` or `*.` in front),
 * addresses and networks (`10.0.0.0/8`), each but a network with an optional port. Other items match nothing.
 */
function parseExceptions(text: string): (host: string, port: number) => boolean {
  const items = text.split(/[\s,]+/).filter((item) => item !== '');
  if (items.includes('*')) return () => true;
  const rules = items.map(parseException);
  return (host, port) => rules.some((matches) => matches(host, port));
}

function parseException(item: string): (host: string, port: number) => boolean {
  const [network = '', bits] = item.replace(/[[\]]/g, '').split('/');
  if (bits !== undefined) return inNetwork(network, Number(bits));
  // An IPv6 address without brackets has no port.
  const [, name = '', digits] = (isIP(item) === 6 ? null : /^(.*?)(?::(\d+))?$/.exec(item)) ?? ['', item];
  const port = digits === undefined ? undefined : Number(digits);
  const host = asInUrls(bareHost(name.replace(/^\*?\./, '')));
  const version = isIP(host);
  const matchesHost =
    version === 0
      ? (other: string) => other === host || other.endsWith(`.${host}`)
      : inNetwork(host, version === 4 ? 32 : 128);
  return (other, otherPort) => (port === undefined || port === otherPort) && matchesHost(other);
}

/** Returns a name with characters beyond ASCII in the form that URLs have. */
function asInUrls(name: string): string {
  return /[^ -~]/.test(name) ? domainToASCII(name) || name : name;
}

function inNetwork(address: string, bits: number): (host: string) => boolean {
  const version = isIP(address);
  if (version === 0 || !Number.isInteger(bits) || bits < 0 || bits > (version === 4 ? 32 : 128)) return () => false;
  const list = new BlockList();
  list.addSubnet(address, bits, version === 4 ? 'ipv4' : 'ipv6');
  return (host) => {
    const other = isIP(host);
    return other !== 0 && list.check(host, other === 4 ? 'ipv4' : 'ipv6');
  };
}

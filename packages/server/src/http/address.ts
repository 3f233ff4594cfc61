import { isIPv4, isIPv6 } from 'node:net';

/**
 * A setting that start-up cannot go on with (decisions 1.1). The message is one line that names the variable, flag or
 * file (with line and key), what is wrong with it and what is accepted; it never carries a secret.
 */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

/** How the text of one setting becomes a value. */
export interface Setting<T> {
  /** What is accepted, as the end of the sentence "accepted: ...". */
  readonly accepts: string;
  /** The value. Throws {@link InvalidSettingError} for a text that is not accepted. */
  readonly parse: (text: string) => T;
  /** True for a text that no message may repeat. */
  readonly secret?: boolean;
}

/** Why a text was refused, as a predicate without its subject ("has no port"). {@link readSetting} adds the rest. */
export class InvalidSettingError extends Error {
  override readonly name = 'Refusal';
}

/** The setting's value, or undefined when it is unset or empty (decisions 1.2). Throws {@link ConfigError} naming it. */
export function readSetting<T>(env: NodeJS.ProcessEnv, name: string, setting: Setting<T>): T | undefined {
  const text = env[name];
  if (text === undefined || text === '') return undefined;
  try {
    return setting.parse(text);
  } catch (error) {
    if (!(error instanceof InvalidSettingError)) throw error;
    const subject = setting.secret === true ? 'the value' : quote(text);
    throw new ConfigError(`${name}: ${subject} ${error.message}; accepted: ${setting.accepts}`);
  }
}

const LONGEST_QUOTE = 120;

/** A text from outside made fit for a one-line message: quoted, escaped, cut, without the credentials of a URL. */
export function quote(text: string): string {
  const shown = text.replace(/\/\/[^/?#\s]*@/g, '//***@');
  return JSON.stringify(shown.length > LONGEST_QUOTE ? `${shown.slice(0, LONGEST_QUOTE)}...` : shown);
}

/** A whole number from `min` to `max`, both included, in plain decimal digits. */
export function integer(min: number, max: number): Setting<number> {
  return {
    accepts: `a whole number from ${min} to ${max}`,
    parse: (text) => {
      if (!/^\d+$/.test(text)) throw new InvalidSettingError('is not a whole number');
      const value = Number(text);
      if (value < min) throw new InvalidSettingError(`is below ${min}`);
      if (value > max) throw new InvalidSettingError(`is above ${max}`);
      return value;
    },
  };
}

/** Exactly one of the given words. */
export function oneOf<const T extends string>(...words: readonly T[]): Setting<T> {
  return {
    accepts: words.map((word) => `"${word}"`).join(' or '),
    parse: (text) => {
      const found = words.find((word) => word === text);
      if (found === undefined) throw new InvalidSettingError('is not known');
      return found;
    },
  };
}

/** A path, taken as it is; whether something is there is for its reader to see. */
export const path: Setting<string> = { accepts: 'a path', parse: (text) => text };

const KEY_BYTES = 32;

/** A key of 32 bytes in hex or base64 (either alphabet, padding optional). */
export const key: Setting<Buffer> = {
  accepts: `${KEY_BYTES} bytes in base64 (44 characters) or hex (64 digits), as of: openssl rand -base64 ${KEY_BYTES}`,
  secret: true,
  parse: (text) => {
    if (/^[0-9a-f]{64}$/i.test(text)) return Buffer.from(text, 'hex');
    if (/^[A-Za-z0-9+/_-]{43}=?$/.test(text)) return Buffer.from(text, 'base64');
    throw new InvalidSettingError(`is not a key of ${KEY_BYTES} bytes (it has ${text.length} characters)`);
  },
};

/** The trimmed, non-empty items of a comma list. */
export function commaList(text: string): string[] {
  return text
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');
}

/** Where a listener binds. `host` is without brackets; port 0 lets the system choose (decisions 1.1). */
export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

/** Where the inference listener forwards to. `host` is without brackets, `path` begins with `/` or is empty. */
export interface HttpUpstream {
  readonly scheme: 'http' | 'https';
  readonly host: string;
  readonly port: number;
  readonly path: string;
}

const HOST_NAME = /^(?!-)[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*\.?$/;

function isHost(text: string): boolean {
  // Digits and dots alone are an IPv4 address or a mistyped one, never a name.
  return /^[\d.]+$/.test(text) ? isIPv4(text) : text.length <= 253 && HOST_NAME.test(text);
}

/** Splits `host`, `host:port`, `[v6]` and `[v6]:port`; the host comes without brackets, a missing port as undefined. */
function splitHost(text: string): { host: string; port: number | undefined } {
  if (isIPv6(text) || /^[0-9a-f]*:[0-9a-f:.]*:[0-9a-f:.]*$/i.test(text)) {
    throw new InvalidSettingError('has an IPv6 host without brackets');
  }
  const parts = /^(?:\[([^[\]]*)\]|([^:[\]]*))(?::(.*))?$/s.exec(text);
  if (parts === null) throw new InvalidSettingError('is not host:port');
  const [, bracketed, plain = '', digits] = parts;
  const host = bracketed ?? plain;
  if (host === '') throw new InvalidSettingError('has no host');
  if (bracketed !== undefined ? !isIPv6(host) : !isHost(host))
    throw new InvalidSettingError('has a host that is not valid');
  if (digits === undefined) return { host, port: undefined };
  if (!/^\d{1,5}$/.test(digits) || Number(digits) > 65_535)
    throw new InvalidSettingError('has a port that is not 0 to 65535');
  return { host, port: Number(digits) };
}

/** `host:port`, IPv6 as `[::]:port` (decisions 1.2). */
export const listenAddress: Setting<ListenAddress> = {
  accepts: 'host:port, such as 0.0.0.0:8080 or [::]:8080',
  parse: (text) => {
    const { host, port } = splitHost(text);
    if (port === undefined) throw new InvalidSettingError('has no port');
    return { host, port };
  },
};

/** `host:port` as {@link listenAddress} reads it: an IPv6 host, which comes without brackets, has them here. */
export function addressText({ host, port }: ListenAddress): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** Checks that the text is a plain http(s) URL: no credentials, query or fragment, nothing the URL parser would repair. */
function parseHttpUrl(text: string): URL {
  if (!/^https?:\/\/[^/?#]/i.test(text) || /[\s\\]/.test(text))
    throw new InvalidSettingError('is not an http or https URL');
  const url = URL.parse(text);
  if (url === null) throw new InvalidSettingError('is not a valid URL');
  if (url.username !== '' || url.password !== '') throw new InvalidSettingError('carries credentials');
  if (/[?#]/.test(text)) throw new InvalidSettingError('has a query or fragment');
  return url;
}

/** An http(s) URL, path allowed, as written but without trailing slashes, so that paths are appended to it. */
export const baseUrl: Setting<string> = {
  accepts: 'an http or https URL without credentials, query and fragment',
  parse: (text) => {
    parseHttpUrl(text);
    return text.replace(/\/+$/, '');
  },
};

/** `host:port`, `http://host[:port][/path]` or `https://host[:port][/path]` (decisions 1.2). */
export const httpUpstream: Setting<HttpUpstream> = {
  accepts: 'host:port, http://host[:port][/path] or https://host[:port][/path]',
  parse: (text) => {
    if (!text.includes('://')) {
      const { host, port } = splitHost(text);
      if (port === undefined) throw new InvalidSettingError('has no port');
      return upstream('http', host, port, '');
    }
    const url = parseHttpUrl(text);
    const scheme = url.protocol === 'https:' ? 'https' : 'http';
    const port = url.port === '' ? (scheme === 'https' ? 443 : 80) : Number(url.port);
    return upstream(scheme, url.hostname.replace(/^\[|\]$/g, ''), port, url.pathname.replace(/\/+$/, ''));
  },
};

function upstream(scheme: HttpUpstream['scheme'], host: string, port: number, path: string): HttpUpstream {
  if (port === 0) throw new InvalidSettingError('has port 0, which nothing can be reached at');
  return { scheme, host, port, path };
}

/** `*` or one origin, as a browser spells it (decisions 1.2): lower case, without a scheme's own port. */
export const corsOrigin: Setting<string> = {
  accepts: '* or one origin, such as https://console.example.com',
  parse: (text) => {
    if (text === '*') return text;
    if (text.includes(',')) throw new InvalidSettingError('names several origins');
    if (/^[a-z][a-z\d+.-]*:\/\/[^/]+\/+$/i.test(text)) throw new InvalidSettingError('ends in a slash');
    if (/^https?:/i.test(text)) {
      const url = parseHttpUrl(text);
      if (url.pathname !== '/') throw new InvalidSettingError('has a path');
      return url.origin;
    }
    // Browser extensions and desktop shells have origins of schemes of their own.
    if (!/^[a-z][a-z\d+.-]*:\/\/[^/?#@\s\\]+$/i.test(text)) throw new InvalidSettingError('is not an origin');
    return text.toLowerCase();
  },
};

/**
 * Values of the Host header (mcp.md 6), lower case: `host`, `host:port`, `[v6]` or `[v6]:port`. One without a port
 * stands for that host with any port; comparing is the listener's work.
 */
export const hostList: Setting<readonly string[]> = {
  accepts: 'a comma list of Host values: host, host:port, [ipv6] or [ipv6]:port',
  parse: (text) => {
    const hosts = commaList(text).map((item) => {
      splitHost(item);
      return item.toLowerCase();
    });
    if (hosts.length === 0) throw new InvalidSettingError('names no host');
    return [...new Set(hosts)];
  },
};

/** Names of request headers to copy upstream, lower case, each once, and a warning for each name that never is. */
interface ForwardHeaders {
  readonly names: readonly string[];
  readonly warnings: readonly string[];
}

const NEVER_COPIED: ReadonlySet<string> = new Set([
  'accept',
  'last-event-id',
  'host',
  'content-type',
  'content-length',
  'x-service-hops',
  // Hop-by-hop: they speak of the connection to us.
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/**
 * True for a header (lower case) that no allow-list can make the relay copy (decisions 4.7). `mcp-*` is all denied:
 * the relay writes those headers itself, and passes unrecognised `Mcp-Param-*` on without being told to (mcp.md 4).
 */
function isNeverCopied(name: string): boolean {
  return name.startsWith('mcp-') || NEVER_COPIED.has(name);
}

const HEADER_NAME = /^[!#$%&'+.^_`|~0-9a-z-]+$/;

/** The comma list of SERVICE_FORWARD_HEADERS (decisions 4.7). */
export const forwardHeaders: Setting<ForwardHeaders> = {
  accepts: 'a comma list of header names, without wildcards',
  parse: (text) => {
    const asked = new Set(commaList(text).map((name) => name.toLowerCase()));
    const wrong = [...asked].find((name) => !HEADER_NAME.test(name));
    if (wrong !== undefined) throw new InvalidSettingError(`has ${quote(wrong)}, which is not a header name`);
    return {
      names: [...asked].filter((name) => !isNeverCopied(name)),
      warnings: [...asked]
        .filter(isNeverCopied)
        .map((name) => `header ${quote(name)} is never copied from client to upstream and is left out`),
    };
  },
};

/**
 * The names in the label `service.forward_headers` of an entry that can be copied, lower case. A label is free text:
 * whatever else stands in it is left out.
 */
export function labelledHeaders(text: string): readonly string[] {
  const names = commaList(text).map((name) => name.toLowerCase());
  return names.filter((name) => HEADER_NAME.test(name) && !isNeverCopied(name));
}

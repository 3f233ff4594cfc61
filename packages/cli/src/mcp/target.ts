import type { LoggingLevel } from '@modelcontextprotocol/client';
import { DEFAULT_NAMESPACE } from '@sluice/contract/values';
import type { Context } from '../context.ts';
import { Failure } from '../failure.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { notAnUpstreamUrl } from '../upstream-url.ts';

/** The management API listens on 8080 by default, MCP on the next port. */
const MCP_PORT = 8081;

/**
 * Derives the MCP endpoint of a namespace from the management API URL: at the next port, as with `sluice serve --port`; at the
 * default port for a URL without a port. Throws {@link Failure} when that is impossible.
 */
function defaultEndpoint(host: string, namespace: string): URL {
  const url = new URL(host);
  // A path prefix of the management API does not apply to the MCP listener.
  if (url.pathname !== '/') throw new Failure(`cannot derive the MCP listener from --host ${host}: use --mcp-url`);
  url.port = String(url.port === '' ? MCP_PORT : Number(url.port) + 1);
  url.pathname = `/${encodeURIComponent(namespace)}/mcp`;
  return url;
}

/** What is known of an MCP endpoint. */
interface EndpointOptions {
  readonly namespace: string;
  /** `--mcp-url`. */
  readonly mcpUrl?: string | undefined;
  /** URL of the endpoint according to the service (SERVICE_PUBLIC_URL). */
  readonly published?: string | undefined;
}

/**
 * Resolves the MCP endpoint of a namespace at the listener of `--mcp-url`, else SLUICE_MCP_URL, else as the service publishes
 * it, else at the port after that of `host`. Throws {@link Failure}.
 */
export function resolveEndpoint(
  { mcpUrl, namespace, published }: EndpointOptions,
  host: string,
  { SLUICE_MCP_URL }: Terminal['env'],
): URL {
  if (mcpUrl !== undefined) return endpointAt(mcpUrl, namespace, '--mcp-url');
  if (SLUICE_MCP_URL) return endpointAt(SLUICE_MCP_URL, namespace, 'SLUICE_MCP_URL');
  if (published !== undefined) return endpointAt(published, namespace, 'SERVICE_PUBLIC_URL');
  return defaultEndpoint(host, namespace);
}

/** The URL of the listener may already be that of the endpoint. `source` is the option or variable for messages. */
function endpointAt(mcpUrl: string, namespace: string, source: string): URL {
  const url = URL.parse(mcpUrl);
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw new Failure(
      `${source} "${mcpUrl}": expected an http:// or https:// URL such as http://localhost:${MCP_PORT}`,
    );
  }
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '') {
    throw new Failure(`${source}: must not contain a user name, password, query or fragment`);
  }
  const [, given] = /\/([^/]+)\/mcp\/*$/.exec(url.pathname) ?? [];
  if (given === encodeURIComponent(namespace)) return url;
  if (given !== undefined) {
    throw new Failure(
      `${source} is the endpoint of namespace ${given}, not ${namespace}: use -N ${given}, or omit /${given}/mcp`,
    );
  }
  url.pathname = `${url.pathname.replace(/\/+$/, '')}/${encodeURIComponent(namespace)}/mcp`;
  return url;
}

/** Options of all `mcp` commands. */
export interface TargetOptions {
  readonly uri?: string;
  readonly namespace?: string;
  readonly mcpUrl?: string;
  readonly header?: readonly string[];
  readonly timeout: string;
  readonly logLevel: LoggingLevel;
}

/** An MCP server, and the headers of every request to it. */
export interface Target {
  readonly url: URL;
  readonly headers: Headers;
  /** Idle timeout in milliseconds. */
  readonly timeoutMs: number;
}

/** Limit of Node.js timers. */
const MAX_TIMEOUT_S = 2_147_483;

/**
 * Resolves the server of the options. Only a token from `--token` is sent: stored credentials belong to the management
 * API, and the server may be anyone's. Throws {@link Failure}.
 */
export function resolveTarget(context: Context, options: TargetOptions): Target {
  const { auth, host } = context.options();
  const headers = parseHeaders(options.header ?? []);
  if (auth.kind === 'token' && auth.from === 'option' && !headers.has('authorization'))
    setHeader(headers, 'authorization', `Bearer ${auth.token}`);
  return {
    url: targetUrl(options, host, context.terminal.env),
    headers,
    timeoutMs: parseTimeout(options.timeout) * 1000,
  };
}

function targetUrl(
  { uri, namespace = DEFAULT_NAMESPACE, mcpUrl }: TargetOptions,
  host: string,
  env: Terminal['env'],
): URL {
  if (uri === undefined) return resolveEndpoint({ namespace, mcpUrl }, host, env);
  const url = URL.parse(uri);
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    const problem = `--uri "${uri}": expected an http:// or https:// URL such as http://localhost:8081/default/mcp`;
    throw notAnUpstreamUrl(uri, problem, (bridge) => `sluice mcp tool list --uri ${bridge}`);
  }
  if (url.username !== '' || url.password !== '') {
    throw new Failure('--uri: must not contain a user name or password; use --header or --token');
  }
  return url;
}

function parseHeaders(pairs: readonly string[]): Headers {
  const headers = new Headers();
  for (const pair of pairs) {
    const [, name, value] = /^([^=]+)=(.*)$/s.exec(pair) ?? [];
    if (name === undefined || value === undefined) throw new Failure('--header: expected NAME=VALUE');
    setHeader(headers, name.trim(), value);
  }
  return headers;
}

/** The value may be a secret and is not part of messages. */
function setHeader(headers: Headers, name: string, value: string): void {
  try {
    headers.set(name, value);
  } catch {
    throw new Failure(`invalid HTTP header "${name}"`);
  }
}

function parseTimeout(text: string): number {
  const seconds = Number(text);
  if (text.trim() !== '' && seconds > 0 && seconds <= MAX_TIMEOUT_S) return seconds;
  throw new Failure(`--timeout "${text}": expected a number of seconds up to ${MAX_TIMEOUT_S}`);
}

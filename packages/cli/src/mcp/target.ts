import type { LoggingLevel } from '@modelcontextprotocol/client';
import type { Context } from '../context.ts';
import { Failure } from '../failure.ts';
import type { Terminal } from '../terminal/terminal.ts';

const MCP_PORT = '8081';

/**
 * The MCP endpoint of a namespace beside the management API at `host` (as `--host` was parsed): the MCP listener on its
 * usual port. Throws {@link Failure} where that cannot be told.
 */
function defaultEndpoint(host: string, namespace: string): URL {
  const url = new URL(host);
  // What leads to the management API by its path may lead to the MCP listener by another, or by none.
  if (url.pathname !== '/') throw new Failure(`--host ${host} does not tell where the MCP listener is: give --mcp-url`);
  url.port = MCP_PORT;
  url.pathname = `/${encodeURIComponent(namespace)}/mcp`;
  return url;
}

/**
 * The MCP endpoint of a namespace: at the MCP listener that `--mcp-url` names, else SLUICE_MCP_URL, else the usual one
 * beside `host`. Throws {@link Failure}.
 */
export function resolveEndpoint(
  { mcpUrl, namespace }: { readonly mcpUrl?: string | undefined; readonly namespace: string },
  host: string,
  { SLUICE_MCP_URL }: Terminal['env'],
): URL {
  if (mcpUrl !== undefined) return endpointAt(mcpUrl, namespace, '--mcp-url');
  if (SLUICE_MCP_URL) return endpointAt(SLUICE_MCP_URL, namespace, 'SLUICE_MCP_URL');
  return defaultEndpoint(host, namespace);
}

/** The endpoint at a listener's URL, which may be that of the endpoint already. `source` is where the URL is from. */
function endpointAt(mcpUrl: string, namespace: string, source: string): URL {
  const url = URL.parse(mcpUrl);
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw new Failure(`${source} "${mcpUrl}": must be an http or https URL such as http://localhost:${MCP_PORT}`);
  }
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '') {
    throw new Failure(`${source}: must not carry a user name, password, query or fragment`);
  }
  const [, given] = /\/([^/]+)\/mcp\/*$/.exec(url.pathname) ?? [];
  if (given === encodeURIComponent(namespace)) return url;
  if (given !== undefined) {
    throw new Failure(
      `${source} is the endpoint of the namespace ${given}, not of ${namespace}: give -N, or leave out /${given}/mcp`,
    );
  }
  url.pathname = `${url.pathname.replace(/\/+$/, '')}/${encodeURIComponent(namespace)}/mcp`;
  return url;
}

/** Options of every command that talks MCP, as they are given. */
export interface TargetOptions {
  readonly uri?: string;
  readonly namespace?: string;
  readonly mcpUrl?: string;
  readonly header?: readonly string[];
  readonly timeout: string;
  readonly logLevel: LoggingLevel;
}

/** An MCP server, and what every request to it carries. */
export interface Target {
  readonly url: URL;
  readonly headers: Headers;
  /** How long it may be silent, in milliseconds. */
  readonly timeoutMs: number;
}

/** Timers of Node.js cannot wait longer. */
const MAX_TIMEOUT_S = 2_147_483;

/**
 * The server that the options name. It gets a token only when one is given with `--token`: stored credentials are the
 * management API's, and who runs the server is unknown. Throws {@link Failure}.
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

function targetUrl({ uri, namespace, mcpUrl }: TargetOptions, host: string, env: Terminal['env']): URL {
  if (namespace !== undefined) return resolveEndpoint({ namespace, mcpUrl }, host, env);
  if (uri === undefined)
    throw new Failure('which server? Give its address as --uri, or --namespace for one of this service');
  const url = URL.parse(uri);
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw new Failure(`--uri "${uri}": must be an http or https URL such as http://localhost:8081/default/mcp`);
  }
  if (url.username !== '' || url.password !== '') {
    throw new Failure('--uri: must not carry a user name or password; give --header or --token');
  }
  return url;
}

function parseHeaders(pairs: readonly string[]): Headers {
  const headers = new Headers();
  for (const pair of pairs) {
    const [, name, value] = /^([^=]+)=(.*)$/s.exec(pair) ?? [];
    if (name === undefined || value === undefined) throw new Failure('--header: must be NAME=VALUE');
    setHeader(headers, name.trim(), value);
  }
  return headers;
}

/** The value may be a secret, so it is in no message. */
function setHeader(headers: Headers, name: string, value: string): void {
  try {
    headers.set(name, value);
  } catch {
    throw new Failure(`the header "${name}" has a name or a value that HTTP does not allow`);
  }
}

function parseTimeout(text: string): number {
  const seconds = Number(text);
  if (text.trim() !== '' && seconds > 0 && seconds <= MAX_TIMEOUT_S) return seconds;
  throw new Failure(`--timeout "${text}": must be a number of seconds, up to ${MAX_TIMEOUT_S}`);
}

import type { LoggingLevel } from '@modelcontextprotocol/client';
import type { Context } from '../context.ts';
import { Failure } from '../failure.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { resolveEndpoint } from './endpoint-url.ts';

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

import type { PublicUrl } from '../http/public-url.ts';
import type { PipelineListener } from './config/pipeline/pipeline.ts';

/** What is served where. */
interface Served {
  /** Bound addresses by listener name. */
  readonly addresses: Readonly<Record<string, string>>;
  readonly listeners: readonly Pick<PipelineListener, 'name' | 'tls'>[];
  /** Undefined without a web console. */
  readonly uiPath?: string | undefined;
  /** Public URLs of the listeners, which replace their bound addresses. */
  readonly publicUrl?: Pick<PublicUrl, 'href'> | undefined;
  readonly consoleUrl?: Pick<PublicUrl, 'href'> | undefined;
}

/** URLs that the command line uses without options. */
const DEFAULT_MANAGEMENT = 'http://localhost:8080';
const DEFAULT_MCP = 'http://localhost:8081';

/** What to open and to do next, on standard output; the log goes to standard error. `command` runs the command line. */
export function welcome(served: Served, command = COMMAND): string {
  const { management, console, mcp } = urlsOf(served);
  const isDefault = (url: string | undefined, expected: string) =>
    url?.replace('//127.0.0.1:', '//localhost:') === expected;
  const host = isDefault(management, DEFAULT_MANAGEMENT) ? '' : ` --host ${management}`;
  const mcpUrl = isDefault(mcp, DEFAULT_MCP) ? '' : ` --mcp-url ${mcp}`;
  const lines: [string, string | undefined][] = [
    ['Console', console],
    // A pipeline may have no listener with this name.
    ['MCP endpoint', mcp && `${mcp}/default/mcp`],
    ['Connect a client', mcp && `${command} configure claude-code${mcpUrl}   (or claude, cursor, vscode)`],
    ['Add a server', `${command} forwards add NAME http://HOST:PORT/mcp${host}`],
    ['API reference', `${management}/api/docs`],
  ];
  const rows = lines.flatMap(([name, text]) => (text === undefined ? [] : [`  ${name.padEnd(18)}${text}\n`]));
  return `Sluice is running\n${rows.join('')}`;
}

/** The same in one line, for a file or another program. */
export function shortWelcome(served: Served): string {
  const { management, console, mcp } = urlsOf(served);
  return `Sluice is running: ${[
    console ? `console ${console}` : `management API ${management}`,
    ...(mcp ? [`MCP ${mcp}/default/mcp`] : []),
  ].join(', ')}\n`;
}

function urlsOf({ addresses, listeners, uiPath, publicUrl, consoleUrl }: Served) {
  const management = consoleUrl?.href ?? reachableUrl(addresses.management);
  const listener = listeners.find(({ name }) => name === 'mcp');
  const mcp = publicUrl?.href ?? (listener && reachableUrl(addresses.mcp, listener.tls !== undefined));
  return { management, console: uiPath === undefined ? undefined : `${management}/admin/`, mcp };
}

/** Returns a URL that clients on this machine can use: with `localhost` for a listener on all interfaces. */
export function reachableUrl(address = '', isSecure = false): string {
  return `http${isSecure ? 's' : ''}://${address.replace(/^(?:0\.0\.0\.0|\[::\]):/, 'localhost:')}`;
}

/** In a checkout the command line is not on the path. */
const COMMAND = import.meta.url.includes('/node_modules/') ? 'sluice' : 'npx sluice';

import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { Failure } from '../failure.ts';

/** Environment that determines the location of configuration files. */
export interface HostEnvironment {
  readonly platform: NodeJS.Platform;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Home folder of the user. */
  readonly home: string;
  /** Project folder: the folder in which the command runs. */
  readonly cwd: string;
}

/** Configuration of the user, for all projects, or of one project. */
export type Scope = 'user' | 'project';

/** The MCP endpoint to configure. */
export interface Endpoint {
  readonly url: URL;
  /** Value of the `Authorization` header, if any. */
  readonly authorization: string | undefined;
}

/** An MCP client and its configuration format. */
export interface Program {
  /** Name on the command line. */
  readonly name: string;
  readonly title: string;
  /** Path of the configuration by scope. Rejects with {@link Failure} when it is ambiguous. */
  readonly files: { readonly [scope in Scope]?: (environment: HostEnvironment) => string | Promise<string> };
  /** Member of the file that contains all servers by name. */
  readonly servers: string;
  /** Members of the server entry. Undefined members are removed; all others are kept. */
  readonly entry: (endpoint: Endpoint, existing: ExistingNames) => Readonly<Record<string, unknown>>;
  /** Syntax of a reference to a secret, if supported; NAME is a placeholder. */
  readonly reference?: string;
  /** What the user has to do for the change to take effect. */
  readonly nextStep: string;
  /** What to do after the entry was removed. */
  readonly nextStepAfterRemoval: string;
}

/** Names of headers and environment variables in an existing entry. */
export interface ExistingNames {
  readonly headers: readonly string[];
  readonly env: readonly string[];
}

/** The supported MCP clients. */
export const PROGRAMS: readonly Program[] = [
  {
    name: 'claude',
    title: 'Claude Desktop',
    files: { user: claudeDesktopFile },
    servers: 'mcpServers',
    entry: mcpRemoteEntry,
    nextStep: 'Restart Claude Desktop.',
    nextStepAfterRemoval: 'Restart Claude Desktop.',
  },
  {
    name: 'claude-code',
    title: 'Claude Code',
    files: {
      user: ({ env, home }) => join(env.CLAUDE_CONFIG_DIR || home, '.claude.json'),
      project: ({ cwd }) => join(cwd, '.mcp.json'),
    },
    servers: 'mcpServers',
    entry: (endpoint, existing) => ({ type: 'http', ...httpEntry(endpoint, existing) }),
    reference: `\${NAME}`,
    nextStep: 'Restart Claude Code; /mcp shows the connection.',
    nextStepAfterRemoval: 'Restart Claude Code.',
  },
  {
    name: 'cursor',
    title: 'Cursor',
    files: {
      user: ({ home }) => join(home, '.cursor', 'mcp.json'),
      project: ({ cwd }) => join(cwd, '.cursor', 'mcp.json'),
    },
    servers: 'mcpServers',
    entry: (endpoint, existing) => ({ type: undefined, ...httpEntry(endpoint, existing) }),
    reference: `\${env:NAME}`,
    nextStep: 'Restart Cursor and enable the server in its MCP settings.',
    nextStepAfterRemoval: 'Restart Cursor.',
  },
  {
    name: 'vscode',
    title: 'VS Code',
    files: {
      user: (environment) => join(appDataFolder(environment), 'Code', 'User', 'mcp.json'),
      project: ({ cwd }) => join(cwd, '.vscode', 'mcp.json'),
    },
    servers: 'servers',
    entry: (endpoint, existing) => ({ type: 'http', ...httpEntry(endpoint, existing) }),
    reference: `\${input:NAME}`,
    nextStep: 'In VS Code, start the server: "MCP: List Servers" in the command palette.',
    nextStepAfterRemoval: 'Restart VS Code, or stop the server: "MCP: List Servers" in the command palette.',
  },
];

/** For clients that support HTTP. */
function httpEntry({ url, authorization }: Endpoint, { headers }: ExistingNames): Record<string, unknown> {
  const header = headers.find((name) => name.toLowerCase() === 'authorization') ?? 'Authorization';
  return {
    url: url.href,
    ...(authorization !== undefined && { headers: { [header]: authorization } }),
    command: undefined,
    args: undefined,
  };
}

/** Spaces in arguments are not preserved on every system, so the header is passed in the environment. */
const HEADER_VARIABLE = 'AUTH_HEADER';

/** For clients that support only stdio servers: `mcp-remote` bridges to HTTP. */
function mcpRemoteEntry({ url, authorization }: Endpoint, { env }: ExistingNames): Record<string, unknown> {
  const withHeader = authorization !== undefined || env.includes(HEADER_VARIABLE);
  return {
    command: 'npx',
    args: [
      '-y',
      'mcp-remote',
      url.href,
      // mcp-remote rejects plain http for any other host.
      ...(url.protocol === 'http:' && !['localhost', '127.0.0.1'].includes(url.hostname) ? ['--allow-http'] : []),
      ...(withHeader ? ['--header', `Authorization:\${${HEADER_VARIABLE}}`] : []),
    ],
    ...(authorization !== undefined && { env: { [HEADER_VARIABLE]: authorization } }),
    type: undefined,
    url: undefined,
  };
}

/** Folder for application settings. */
function appDataFolder({ platform, env, home }: HostEnvironment): string {
  if (platform === 'win32') return env.APPDATA || join(home, 'AppData', 'Roaming');
  if (platform === 'darwin') return join(home, 'Library', 'Application Support');
  return env.XDG_CONFIG_HOME || join(home, '.config');
}

const CLAUDE_DESKTOP_FILE = 'claude_desktop_config.json';

/** On Windows, a packaged Claude Desktop has its settings in the package folder and never reads the usual path. */
async function claudeDesktopFile(environment: HostEnvironment): Promise<string> {
  const { platform, env, home } = environment;
  if (platform === 'win32') {
    const packages = join(env.LOCALAPPDATA || join(home, 'AppData', 'Local'), 'Packages');
    const names = await readdir(packages).catch(() => []);
    const [packaged, another] = names
      .filter((name) => name.startsWith('Claude_'))
      .map((name) => join(packages, name, 'LocalCache', 'Roaming', 'Claude', CLAUDE_DESKTOP_FILE));
    if (packaged !== undefined && another !== undefined) {
      throw new Failure('Claude Desktop is installed more than once; choose one with --file', {
        notes: [packaged, another],
      });
    }
    if (packaged !== undefined) return packaged;
  }
  return join(appDataFolder(environment), 'Claude', CLAUDE_DESKTOP_FILE);
}

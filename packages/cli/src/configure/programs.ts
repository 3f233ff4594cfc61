import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { Failure } from '../failure.ts';

/** What a program's configuration is found by. */
export interface HostEnvironment {
  readonly platform: NodeJS.Platform;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The person's home folder. */
  readonly home: string;
  /** The project: the folder that the command runs in. */
  readonly cwd: string;
}

/** Whose configuration is changed: the person's own, for all projects, or that of the project. */
export type Scope = 'user' | 'project';

/** The MCP endpoint that a program is to reach. */
export interface Endpoint {
  readonly url: URL;
  /** Value of the header `Authorization`; none is written without one. */
  readonly authorization: string | undefined;
}

/** A client program, and how it wants to be told of an MCP server. */
export interface Program {
  /** What it is called on the command line. */
  readonly name: string;
  readonly title: string;
  /** Where its configuration is, for each scope that it has. Rejects with {@link Failure} when that cannot be told. */
  readonly files: { readonly [scope in Scope]?: (environment: HostEnvironment) => string | Promise<string> };
  /** The member of the file that has all servers, by name. */
  readonly servers: string;
  /** Members of the server's entry. One that is undefined is taken out where it is; others, and others' members, stay. */
  readonly entry: (endpoint: Endpoint, existing: ExistingNames) => Readonly<Record<string, unknown>>;
  /** How it refers to a secret that is kept elsewhere, for those that can; NAME stands for the name. */
  readonly reference?: string;
  /** What has to be done before it sees the change. */
  readonly nextStep: string;
}

/** Names in an entry that is there already. */
export interface ExistingNames {
  readonly headers: readonly string[];
  readonly env: readonly string[];
}

/** The client programs that can be configured. */
export const PROGRAMS: readonly Program[] = [
  {
    name: 'claude',
    title: 'Claude Desktop',
    files: { user: claudeDesktopFile },
    servers: 'mcpServers',
    entry: mcpRemoteEntry,
    nextStep: 'Quit Claude Desktop and start it again.',
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
    nextStep: 'Start Claude Code anew; /mcp shows the connection.',
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
    nextStep: 'Restart Cursor, and see in its MCP settings that the server is switched on.',
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
  },
];

/** For programs that speak HTTP themselves. */
function httpEntry({ url, authorization }: Endpoint, { headers }: ExistingNames): Record<string, unknown> {
  const header = headers.find((name) => name.toLowerCase() === 'authorization') ?? 'Authorization';
  return {
    url: url.href,
    ...(authorization !== undefined && { headers: { [header]: authorization } }),
    command: undefined,
    args: undefined,
  };
}

/** Blanks within arguments do not survive on every system; the environment carries them. */
const HEADER_VARIABLE = 'AUTH_HEADER';

/** For programs that know servers on standard input and output alone: `mcp-remote` stands in between. */
function mcpRemoteEntry({ url, authorization }: Endpoint, { env }: ExistingNames): Record<string, unknown> {
  const withHeader = authorization !== undefined || env.includes(HEADER_VARIABLE);
  return {
    command: 'npx',
    args: [
      '-y',
      'mcp-remote',
      url.href,
      // It refuses http anywhere else.
      ...(url.protocol === 'http:' && !['localhost', '127.0.0.1'].includes(url.hostname) ? ['--allow-http'] : []),
      ...(withHeader ? ['--header', `Authorization:\${${HEADER_VARIABLE}}`] : []),
    ],
    ...(authorization !== undefined && { env: { [HEADER_VARIABLE]: authorization } }),
    type: undefined,
    url: undefined,
  };
}

/** The folder that programs keep a person's settings in. */
function appDataFolder({ platform, env, home }: HostEnvironment): string {
  if (platform === 'win32') return env.APPDATA || join(home, 'AppData', 'Roaming');
  if (platform === 'darwin') return join(home, 'Library', 'Application Support');
  return env.XDG_CONFIG_HOME || join(home, '.config');
}

const CLAUDE_DESKTOP_FILE = 'claude_desktop_config.json';

/**
 * On Windows, Claude Desktop comes as a package whose settings the system puts elsewhere; what stands in the usual place
 * it never reads.
 */
async function claudeDesktopFile(environment: HostEnvironment): Promise<string> {
  const { platform, env, home } = environment;
  if (platform === 'win32') {
    const packages = join(env.LOCALAPPDATA || join(home, 'AppData', 'Local'), 'Packages');
    const names = await readdir(packages).catch(() => []);
    const [packaged, another] = names
      .filter((name) => name.startsWith('Claude_'))
      .map((name) => join(packages, name, 'LocalCache', 'Roaming', 'Claude', CLAUDE_DESKTOP_FILE));
    if (packaged !== undefined && another !== undefined) {
      throw new Failure('Claude Desktop is installed more than once; say which one with --file', {
        notes: [packaged, another],
      });
    }
    if (packaged !== undefined) return packaged;
  }
  return join(appDataFolder(environment), 'Claude', CLAUDE_DESKTOP_FILE);
}

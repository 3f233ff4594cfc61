import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ENVIRONMENT } from '../../fixtures/environment.ts';
import { findGo } from '../../fixtures/programs.ts';
import { pythonEnvironment, runBuild } from '../python-environment.ts';

const SOURCES = fileURLToPath(new URL('./', import.meta.url));
/** Builds, and the packages of other languages; kept between runs. */
const CACHE = fileURLToPath(new URL('../../../node_modules/.cache/sluice-sdks/', import.meta.url));

/** A command line with its environment. */
export interface Command {
  readonly file: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/** An official SDK, with a client and a server of the scenario. */
export interface Sdk {
  /** Its folder here. */
  readonly name: string;
  readonly title: string;
  /** The version in its lock file. */
  readonly version: () => Promise<string>;
  /** Builds both programs unless they are up to date; returns what is missing on this machine instead. */
  readonly build: () => Promise<SdkPrograms | string>;
}

/** The programs of an SDK. The server listens on the port of `PORT`; the client gets an address as its argument. */
export interface SdkPrograms {
  readonly client: Command;
  readonly server: Command;
}

/** The official SDKs. */
export const SDKS: readonly Sdk[] = [
  typescript('typescript-1', 'TypeScript 1.x', '@modelcontextprotocol/sdk'),
  typescript('typescript-2', 'TypeScript 2.x', '@modelcontextprotocol/client'),
  python('python-1', 'Python 1.x', 'mcp'),
  python('python-2', 'Python 2.x', 'mcp'),
  python('fastmcp', 'FastMCP', 'fastmcp'),
  {
    name: 'go',
    title: 'Go',
    version: () => locked('go/go.mod', /go-sdk (v\S+)/),
    build: async () => {
      const go = findGo();
      if (go === undefined) return 'Go';
      const folder = join(CACHE, 'go/');
      const args = ['build', '-p', '1', '-o', folder, './client', './server'];
      await runBuild(go, args, join(SOURCES, 'go'));
      return compiled(join(folder, 'client'), join(folder, 'server'));
    },
  },
  {
    name: 'rust',
    title: 'Rust',
    version: () => locked('rust/Cargo.lock', /name = "rmcp"\nversion = "(.+)"/),
    build: async () => {
      const cargo = findProgram('cargo', join(homedir(), '.cargo/bin/cargo'));
      if (cargo === undefined) return 'Cargo';
      const target = join(CACHE, 'rust');
      await runBuild(cargo, ['build', '--locked', '--jobs', '1', '--target-dir', target], join(SOURCES, 'rust'));
      return compiled(join(target, 'debug/client'), join(target, 'debug/server'));
    },
  },
  {
    name: 'java',
    title: 'Java',
    version: () => locked('java/pom.xml', /<mcp\.version>(.+)<\/mcp\.version>/),
    build: async () => {
      const maven = findProgram('mvn');
      if (maven === undefined) return 'Maven';
      const target = join(CACHE, 'java');
      await runBuild(maven, ['-q', '-B', `-DbuildFolder=${target}`, 'package'], join(SOURCES, 'java'));
      const command = (name: string): Command => {
        const path = `${join(target, 'classes')}:${join(target, 'libraries/*')}`;
        return { file: 'java', args: ['-XX:TieredStopAtLevel=1', '-cp', path, name], env: ENVIRONMENT };
      };
      return { client: command('Client'), server: command('Server') };
    },
  },
];

/** An SDK of npm, which is installed with the repository. */
function typescript(name: string, title: string, module: string): Sdk {
  const command = (program: string): Command => {
    return { file: process.execPath, args: [join(SOURCES, name, program)], env: ENVIRONMENT };
  };
  return {
    name,
    title,
    version: async () => {
      const folder = createRequire(import.meta.url)
        .resolve.paths(module)
        ?.find((path) => existsSync(join(path, module)));
      const { version }: { version?: unknown } = JSON.parse(
        await readFile(join(folder ?? '', module, 'package.json'), 'utf8'),
      );
      return String(version);
    },
    build: async () => ({ client: command('client.ts'), server: command('server.ts') }),
  };
}

/** An SDK of PyPI, in an environment of its own. */
function python(name: string, title: string, module: string): Sdk {
  const requirements = join(SOURCES, name, 'requirements.txt');
  return {
    name,
    title,
    version: () => locked(`${name}/requirements.txt`, new RegExp(`^${module}==(.+)$`, 'm')),
    build: async () => {
      const environment = await pythonEnvironment(join(CACHE, name), requirements);
      if ('missing' in environment) return environment.missing;
      const { bin } = environment;
      const command = (program: string): Command => {
        const env = { ...ENVIRONMENT, PYTHONDONTWRITEBYTECODE: '1', PYTHONPATH: SOURCES, PYTHONUTF8: '1' };
        return { file: join(bin, 'python'), args: [join(SOURCES, name, program)], env };
      };
      return { client: command('client.py'), server: command('server.py') };
    },
  };
}

function compiled(client: string, server: string): SdkPrograms {
  return { client: { file: client, args: [], env: ENVIRONMENT }, server: { file: server, args: [], env: ENVIRONMENT } };
}

/** The version that a file of this folder pins. */
async function locked(file: string, pattern: RegExp): Promise<string> {
  return pattern.exec(await readFile(join(SOURCES, file), 'utf8'))?.[1] ?? '';
}

function findProgram(name: string, ...more: readonly string[]): string | undefined {
  const folders = (process.env.PATH ?? '').split(':');
  return [...folders.map((folder) => join(folder, name)), ...more].find((path) => existsSync(path));
}

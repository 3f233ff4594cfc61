import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type Hosts, readDeployFile, type Variables } from './deploy-files.ts';
import { type Program, startProgram } from './program.ts';

/** Version of the proxy that the deployment files name. */
const VERSION = 'v7.15.6';

const run = promisify(execFile);

/** Folder of programs that npm does not install; kept between runs. */
export const PROGRAM_CACHE: string = process.env.SLUICE_LOGIN_CACHE ?? join(homedir(), '.cache/sluice-login');

/** The path of Go; undefined where it is not installed. */
export function findGo(): string | undefined {
  return ['/usr/local/go/bin/go', '/usr/bin/go'].find((path) => existsSync(path));
}

/** Builds oauth2-proxy from the Go module proxy, once per version and machine; undefined where Go is missing. */
export async function buildOauth2Proxy(cache: string): Promise<string | undefined> {
  const folder = join(cache, `oauth2-proxy-${VERSION}`);
  const program = join(folder, 'oauth2-proxy');
  if (existsSync(program)) return program;
  const go = findGo();
  if (go === undefined) return undefined;
  const env = { ...process.env, GOBIN: folder };
  const target = `github.com/oauth2-proxy/oauth2-proxy/v7@${VERSION}`;
  await run('nice', ['-n', '10', go, 'install', target], { env, timeout: 900_000, maxBuffer: 2 ** 26 });
  return program;
}

/** What differs between the deployment and a test. */
export interface ProxyOptions {
  readonly program: string;
  /** Addresses in place of those of the deployment. */
  readonly hosts: Hosts;
  readonly secrets: Variables;
  /** Settings to replace: what would happen with them. */
  readonly changes?: Variables;
}

/** Starts an instance of the proxy with the files of the deployment. */
export async function startOauth2Proxy(kind: 'mcp' | 'management', options: ProxyOptions): Promise<Program> {
  const { program, hosts, secrets, changes } = options;
  const env = {
    ...(await readDeployFile('proxy.env', hosts)),
    ...(await readDeployFile(`proxy-${kind}.env`, hosts)),
    ...Object.fromEntries(Object.entries(secrets).filter(([name]) => name.startsWith('OAUTH2_PROXY_'))),
    ...changes,
  };
  const address = String(env.OAUTH2_PROXY_HTTP_ADDRESS).replace('0.0.0.0', '127.0.0.1');
  return startProgram({ command: program, env, ready: `http://${address}/ping`, deadlineMs: 30_000 });
}

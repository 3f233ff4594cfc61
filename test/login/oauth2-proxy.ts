import { installGoProgram } from '../fixtures/programs.ts';
import { type Hosts, readDeployFile, type Variables } from './deploy-files.ts';
import { type Program, startProgram } from './program.ts';

/** Version of the proxy that the deployment files name. */
export const VERSION = 'v7.15.6';

/** Builds oauth2-proxy from the Go module proxy, once per version and machine; undefined where Go is missing. */
export function buildOauth2Proxy(): Promise<string | undefined> {
  return installGoProgram('oauth2-proxy', `github.com/oauth2-proxy/oauth2-proxy/v7@${VERSION}`);
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

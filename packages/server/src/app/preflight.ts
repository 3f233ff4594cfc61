import { stat } from 'node:fs/promises';
import type { DiagnosticCheck } from '@sluice/contract';
import { counted } from '@sluice/protocol/text';
import { formatAddress, type ListenAddress } from '../http/address.ts';
import { ConfigError } from '../http/settings.ts';
import { checkFolder } from '../management/machine-checks.ts';
import { closestExisting } from './backup.ts';
import { loadBootstrapFile } from './config/bootstrap-file.ts';
import { type Config, loadConfig } from './config/config.ts';
import { loadPipeline } from './config/pipeline/load.ts';
import { bindingError, portOwner } from './taken-port.ts';

/**
 * Checks whether the service would start again with the configuration files with which it runs. `startedAt` is the time at
 * which it read them, in epoch milliseconds.
 */
export async function checkFiles(config: Config, startedAt: number): Promise<DiagnosticCheck[]> {
  const { pipelinePath, bootstrap, kinds } = config;
  return [
    await checkFile('pipeline file', pipelinePath, 'none: the built-in pipeline', startedAt, (path) =>
      loadPipeline(path, config),
    ),
    await checkFile('service file', bootstrap.path, 'none', startedAt, (path) =>
      loadBootstrapFile(path, bootstrap.folder, kinds),
    ),
  ];
}

async function checkFile(
  name: string,
  path: string | undefined,
  none: string,
  startedAt: number,
  load: (path: string) => Promise<{ readonly warnings: readonly string[] }>,
): Promise<DiagnosticCheck> {
  if (path === undefined) return { name, status: 'ok', message: none };
  try {
    const { warnings } = await load(path);
    const { mtimeMs } = await stat(path);
    if (mtimeMs > startedAt) {
      const message = `${path} was changed after the start of the service`;
      return { name, status: 'warning', message, remedy: 'Restart the service to apply the changes' };
    }
    const [warning] = warnings;
    if (warning === undefined) return { name, status: 'ok', message: path };
    const message = `${counted(warnings.length, 'warning')}, first: ${warning}`;
    return { name, status: 'warning', message, remedy: 'Correct the file, and restart the service' };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return { name, status: 'failed', message: error.message, remedy: START_REMEDY };
  }
}

const START_REMEDY = 'Correct it: the service does not start with it';

/**
 * Checks what prevents the service from starting on this machine with a command line and an environment: the configuration,
 * the ports and the registry folder.
 */
export async function checkStart(
  argv: readonly string[],
  env: NodeJS.ProcessEnv,
  cwd: string,
): Promise<DiagnosticCheck[]> {
  const name = 'configuration';
  try {
    const invocation = await loadConfig(argv, env, cwd);
    if (invocation.kind === 'print') return [];
    const { config } = invocation;
    const files = [config.pipelinePath ?? 'the built-in pipeline', config.bootstrap.path ?? 'no service file'];
    return [
      { name, status: 'ok', message: files.join(', ') },
      await checkPorts([
        ['management', config.mgmtListen],
        ...config.pipeline.listeners.map((listener) => [listener.name, listener.address] as const),
      ]),
      await checkFolder(config.persist.backend === 'file' ? await closestExisting(config.persist.path) : undefined),
    ];
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return [{ name, status: 'failed', message: error.message, remedy: START_REMEDY }];
  }
}

/** Checks whether the addresses of listeners can be bound. */
async function checkPorts(listeners: readonly (readonly [string, ListenAddress])[]): Promise<DiagnosticCheck> {
  const name = 'ports';
  for (const [listener, address] of listeners) {
    const code = await bindingError(address);
    if (code === undefined) continue;
    const owner = code === 'EADDRINUSE' ? ((await portOwner(address.port)) ?? 'another program') : undefined;
    const known = owner ? { reason: `is in use by ${owner}`, remedy: OTHER_ADDRESS } : PORT_ERRORS[code];
    const { reason, remedy } = known ?? { reason: `cannot be bound (${code})`, remedy: OTHER_ADDRESS };
    return { name, status: 'failed', message: `${listener} ${formatAddress(address)} ${reason}`, remedy };
  }
  const list = listeners.map(([listener, address]) => `${listener} ${formatAddress(address)}`);
  return { name, status: 'ok', message: `free: ${list.join(', ')}` };
}

const OTHER_ADDRESS =
  'Choose other ports with --port, or other addresses with SERVICE_MGMT_LISTEN, SERVICE_MCP_LISTEN or SERVICE_INFERENCE_LISTEN, or in the pipeline file';
const PORT_ERRORS: Readonly<Record<string, { readonly reason: string; readonly remedy: string }>> = {
  EACCES: { reason: 'requires more privileges', remedy: OTHER_ADDRESS },
  EADDRNOTAVAIL: { reason: 'is no address of this machine', remedy: OTHER_ADDRESS },
};

// Sample capability service for Sluice: tools and code execution over gRPC. See README.md.

import { echo } from './echo.ts';
import { probe } from './health.ts';
import { httpGet } from './http-get.ts';
import { SecretStore } from './provisioning.ts';
import { register } from './registration.ts';
import { executeCode } from './run-code.ts';
import { ListenError, startServer } from './server.ts';
import { InvalidSettingError, readSettings } from './settings.ts';
import { invokeTool } from './tools.ts';

/** Prints configuration errors in one line and exits. */
function exitWithError(error: unknown): never {
  if (!(error instanceof InvalidSettingError || error instanceof ListenError)) throw error;
  console.error(error.message);
  process.exit(1);
}

const settings = await Promise.try(readSettings, process.env).catch(exitWithError);
const secrets = new SecretStore();
const tools = [echo, httpGet(settings.httpOrigins, secrets)];

const server = await startServer(settings.listen, {
  'tool.ToolInvoker': { InvokeTool: invokeTool(tools) },
  'tool.Provisioner': { Provision: secrets.provision },
  'codeexecution.CodeExecutor': { ExecuteCode: executeCode() },
  'health.HealthProbe': { Probe: probe },
}).catch(exitWithError);
const address = settings.address ?? settings.listen.replace(/:\d+$/, `:${server.port}`);

const stopped = new AbortController();
async function stop(code: number): Promise<void> {
  // A second signal exits immediately.
  if (stopped.signal.aborted) process.exit(1);
  stopped.abort();
  // Stays registered, see README.md.
  await server.stop();
  process.exit(code);
}
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => void stop(0));

try {
  await register(settings, { address, tools, log: console.error, signal: stopped.signal });
  console.log(
    `capability service at ${address}, registered at ${settings.sluice.host}, namespace ${settings.namespace}`,
  );
} catch (error) {
  if (!stopped.signal.aborted) {
    console.error(error instanceof Error ? error.message : error);
    await stop(1);
  }
}

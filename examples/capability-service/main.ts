// A capability service for Sluice: tools and code that are carried out here, called over gRPC. The README says how to
// run it and what to change.

import { echo } from './echo.ts';
import { probe } from './health.ts';
import { httpGet } from './http-get.ts';
import { Provisioned } from './provisioning.ts';
import { register } from './registration.ts';
import { executeCode } from './run-code.ts';
import { NotListening, startServer } from './server.ts';
import { settingsOf, WrongSetting } from './settings.ts';
import { invokeTool } from './tools.ts';

/** What an operator can mend is said in a line. */
function cannotStart(error: unknown): never {
  if (!(error instanceof WrongSetting || error instanceof NotListening)) throw error;
  console.error(error.message);
  process.exit(1);
}

const settings = await Promise.try(settingsOf, process.env).catch(cannotStart);
const provisioned = new Provisioned();
const tools = [echo, httpGet(settings.httpOrigins, provisioned)];

const server = await startServer(settings.listen, {
  'tool.ToolInvoker': { InvokeTool: invokeTool(tools) },
  'tool.Provisioner': { Provision: provisioned.provision },
  'codeexecution.CodeExecutor': { ExecuteCode: executeCode() },
  'health.HealthProbe': { Probe: probe },
}).catch(cannotStart);
const address = settings.address ?? settings.listen.replace(/:\d+$/, `:${server.port}`);

const stopped = new AbortController();
async function stop(code: number): Promise<void> {
  // The second time somebody is in a hurry.
  if (stopped.signal.aborted) process.exit(1);
  stopped.abort();
  // What is registered stays so: see the README.
  await server.stop();
  process.exit(code);
}
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => void stop(0));

try {
  await register(settings, { address, tools, report: console.error, signal: stopped.signal });
  console.log(
    `capability service at ${address}, registered at ${settings.sluice.host}, namespace ${settings.namespace}`,
  );
} catch (error) {
  if (!stopped.signal.aborted) {
    console.error(error instanceof Error ? error.message : error);
    await stop(1);
  }
}

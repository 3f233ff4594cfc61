// A capability service for Sluice: tools and code that are carried out here, called over gRPC. The README says how to
// run it and what to change.

import { echo } from './echo.ts';
import { probe } from './health.ts';
import { httpGet } from './http-get.ts';
import { Provisioned } from './provisioning.ts';
import { register } from './registration.ts';
import { executeCode } from './run-code.ts';
import { startServer } from './server.ts';
import { settingsOf } from './settings.ts';
import { invokeTool } from './tools.ts';

const settings = settingsOf(process.env);
const provisioned = new Provisioned();
const tools = [echo, httpGet(settings.httpHosts, provisioned)];

const server = await startServer(settings.listen, {
  'tool.ToolInvoker': { InvokeTool: invokeTool(tools) },
  'tool.Provisioner': { Provision: provisioned.provision },
  'codeexecution.CodeExecutor': { ExecuteCode: executeCode() },
  'health.HealthProbe': { Probe: probe },
});
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

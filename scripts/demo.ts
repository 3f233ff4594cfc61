/**
 * `npm run demo`: starts the service, a real upstream MCP server and the sample capability service, exercises them as an
 * agent would, and keeps serving until Ctrl-C. With `--once`, exits after the steps. The exit code is 1 if a step failed.
 *
 * Everything listens on loopback and uses a temporary registry, so the user's own service and registry are not affected.
 */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs, styleText } from 'node:util';
import { ChildProcesses } from './demo/children.ts';
import { findFreePort, withPorts } from './demo/ports.ts';
import { type Endpoints, walk } from './demo/walk.ts';

const SERVICE = fileURLToPath(new URL('../packages/server/src/main.ts', import.meta.url));
const UPSTREAM = fileURLToPath(import.meta.resolve('@modelcontextprotocol/server-everything/dist/index.js'));
const SAMPLE = fileURLToPath(new URL('../examples/capability-service/main.ts', import.meta.url));
const HOST = '127.0.0.1';

async function demo(once: boolean): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-demo-'));
  const children = new ChildProcesses();
  let ended = false;
  const end = async (code: number): Promise<void> => {
    // Ctrl-C arrives twice, from the terminal and from npm.
    if (ended) return;
    ended = true;
    await children.stop();
    await rm(folder, { recursive: true, force: true });
    process.exit(code);
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => void end(0));
  const report = (passed: boolean, step: string, what: string): void => {
    // Errors during shutdown are expected.
    if (ended) return;
    const mark = passed ? styleText('green', '✓') : styleText('red', '✗');
    console.log(`${mark} ${styleText('bold', step.padEnd(9))} ${what}`);
  };

  const started = await start(children, folder, report).catch((error: unknown) => {
    report(false, 'start', error instanceof Error ? error.message : String(error));
    return undefined;
  });
  if (!started) return end(1);
  const { endpoints, log } = started;
  const passed = await walk(endpoints, report);
  if (!passed && !ended) console.log(['Last lines of the Sluice log:', ...log].join('\n  '));
  if (!passed || once) return end(passed ? 0 : 1);
  printCommands(endpoints);
  report(false, 'serve', await children.exited);
  await end(1);
}

/** Starts the upstream, the service and the sample, on their default ports if free. `log` grows with the output. */
async function start(
  children: ChildProcesses,
  folder: string,
  report: (passed: boolean, step: string, what: string) => void,
): Promise<{ endpoints: Endpoints; log: readonly string[] }> {
  const { PATH } = process.env;
  const port = await findFreePort(3001);
  const upstream = await children.start({
    name: 'server-everything',
    args: [UPSTREAM, 'streamableHttp'],
    // It has a tool that returns its environment.
    env: { PATH, PORT: String(port) },
    folder,
    ready: (line) => (line.includes(`listening on port ${port}`) ? `http://${HOST}:${port}/mcp` : undefined),
  });
  report(true, 'upstream', `@modelcontextprotocol/server-everything at ${upstream.value} (process ${upstream.pid})`);

  const service = await withPorts([8080, 8081, 8083], HOST, ([managementPort, mcpPort, inferencePort]) =>
    children.start({
      name: 'sluice',
      args: [SERVICE],
      env: {
        PATH,
        SERVICE_MGMT_LISTEN: `${HOST}:${managementPort}`,
        SERVICE_MCP_LISTEN: `${HOST}:${mcpPort}`,
        SERVICE_INFERENCE_LISTEN: `${HOST}:${inferencePort}`,
        SERVICE_PERSIST_PATH: join(folder, 'registry'),
      },
      folder,
      ready: parseListening,
    }),
  );
  const { management, mcp } = service.value;
  report(true, 'sluice', `management API at ${management}, MCP at ${mcp} (process ${service.pid})`);

  const sample = await withPorts([50051], HOST, ([samplePort]) =>
    children.start({
      name: 'the sample capability service',
      // Prevents executed code from opening the debugger with SIGUSR1.
      args: ['--disable-sigusr1', SAMPLE],
      env: { PATH, SLUICE_HOST: management, SAMPLE_LISTEN: `${HOST}:${samplePort}` },
      folder,
      ready: (line) => /^capability service at (\S+), registered at /.exec(line)?.[1],
    }),
  );
  report(true, 'sample', `capability service at ${sample.value}, registered (process ${sample.pid})`);
  const endpoints = {
    management,
    mcp: `${mcp}/default/mcp`,
    sample: `${mcp}/sample/mcp`,
    upstream: upstream.value,
  };
  return { endpoints, log: service.output };
}

/** Returns the addresses in the log line `listening`; undefined for other lines. */
function parseListening(line: string): { management: string; mcp: string } | undefined {
  const [, management, mcp] = /"msg":"listening","management":"([^"]+)","mcp":"([^"]+)"/.exec(line) ?? [];
  return management && mcp ? { management: `http://${management}`, mcp: `http://${mcp}` } : undefined;
}

function printCommands({ management, mcp, sample }: Endpoints): void {
  const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'echo', arguments: { message: 'hi' } } };
  const run = { ...call, params: { name: 'run-javascript', arguments: { code: 'console.log(6 * 7)' } } };
  const client = { mcpServers: { sluice: { type: 'http', url: mcp } } };
  const lines: [title: string, line: string][] = [
    ['List forwards', `curl ${management}/api/v1/forwards`],
    ['Call a tool', `curl ${mcp} -H 'Accept: application/json' -d '${JSON.stringify(call)}'`],
    [
      'Run code in the sample capability service',
      `curl ${sample} -H 'Accept: application/json' -d '${JSON.stringify(run)}'`,
    ],
    ['Watch tool calls', `curl -N ${management}/api/v1/tool-calls/notifications`],
    ['Add your own server', `curl ${management}/api/v1/forwards -d '{"name":"mine","address":"http://HOST:PORT/mcp"}'`],
    ['MCP client configuration', JSON.stringify(client)],
  ];
  for (const [title, line] of lines) console.log(`\n${styleText('bold', title)}\n  ${styleText('cyan', line)}`);
  console.log('\nServing until Ctrl-C. The registry of the demo is deleted on exit.');
}

const { values } = parseArgs({ options: { once: { type: 'boolean', default: false } } });
await demo(values.once);

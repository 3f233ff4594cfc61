/**
 * `npm run demo`: starts the service, a real upstream MCP server and the sample capability service, walks the way of an
 * agent through them, and goes on serving until Ctrl-C. `--once` ends after the walk. The exit code is 1 when a step failed.
 *
 * Everything listens on loopback and the registry is kept in a temporary folder: what the user runs and has registered
 * is left alone.
 */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs, styleText } from 'node:util';
import { Children } from './demo/children.ts';
import { firstFree, onPorts } from './demo/ports.ts';
import { type Places, walk } from './demo/walk.ts';

const SERVICE = fileURLToPath(new URL('../packages/server/src/main.ts', import.meta.url));
const UPSTREAM = fileURLToPath(import.meta.resolve('@modelcontextprotocol/server-everything/dist/index.js'));
const SAMPLE = fileURLToPath(new URL('../examples/capability-service/main.ts', import.meta.url));
const HOST = '127.0.0.1';

async function demo(once: boolean): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-demo-'));
  const children = new Children();
  let ended = false;
  const end = async (code: number): Promise<void> => {
    // npm passes Ctrl-C on to us although the terminal has sent it already: the second one means nothing new.
    if (ended) return;
    ended = true;
    await children.end();
    await rm(folder, { recursive: true, force: true });
    process.exit(code);
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => void end(0));
  const report = (passed: boolean, step: string, what: string): void => {
    // What fails while everything is being ended did not fail.
    if (ended) return;
    const mark = passed ? styleText('green', '✓') : styleText('red', '✗');
    console.log(`${mark} ${styleText('bold', step.padEnd(9))} ${what}`);
  };

  const started = await start(children, folder, report).catch((error: unknown) => {
    report(false, 'start', error instanceof Error ? error.message : String(error));
    return undefined;
  });
  if (!started) return end(1);
  const { places, log } = started;
  const passed = await walk(places, report);
  if (!passed && !ended) console.log(['The end of the log of sluice:', ...log].join('\n  '));
  if (!passed || once) return end(passed ? 0 : 1);
  goOn(places);
  report(false, 'serve', await children.lost);
  await end(1);
}

/** Starts the upstream, the service and the sample, on their usual ports when they are free. `log` goes on growing. */
async function start(
  children: Children,
  folder: string,
  report: (passed: boolean, step: string, what: string) => void,
): Promise<{ places: Places; log: readonly string[] }> {
  const { PATH } = process.env;
  const port = await firstFree(3001);
  const upstream = await children.start({
    name: 'server-everything',
    args: [UPSTREAM, 'streamableHttp'],
    // It has a tool that shows its environment, so it gets none of ours.
    env: { PATH, PORT: String(port) },
    folder,
    ready: (line) => (line.includes(`listening on port ${port}`) ? `http://${HOST}:${port}/mcp` : undefined),
  });
  report(true, 'upstream', `@modelcontextprotocol/server-everything at ${upstream.value} (process ${upstream.pid})`);

  const service = await onPorts([8080, 8081, 8083], HOST, ([managementPort, mcpPort, inferencePort]) =>
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
      ready: listening,
    }),
  );
  const { management, mcp } = service.value;
  report(true, 'sluice', `management API at ${management}, MCP at ${mcp} (process ${service.pid})`);

  const sample = await onPorts([50051], HOST, ([samplePort]) =>
    children.start({
      name: 'the sample capability service',
      // What it runs could signal it otherwise, and have it open its debugger.
      args: ['--disable-sigusr1', SAMPLE],
      env: { PATH, SLUICE_HOST: management, SAMPLE_LISTEN: `${HOST}:${samplePort}` },
      folder,
      ready: (line) => /^capability service at (\S+), registered at /.exec(line)?.[1],
    }),
  );
  report(true, 'sample', `capability service at ${sample.value}, which has registered itself (process ${sample.pid})`);
  const places = {
    management,
    mcp: `${mcp}/default/mcp`,
    sample: `${mcp}/sample/mcp`,
    upstream: upstream.value,
  };
  return { places, log: service.output };
}

/** The addresses in the service's log line that says that it listens. */
function listening(line: string): { management: string; mcp: string } | undefined {
  const [, management, mcp] = /"msg":"listening","management":"([^"]+)","mcp":"([^"]+)"/.exec(line) ?? [];
  return management && mcp ? { management: `http://${management}`, mcp: `http://${mcp}` } : undefined;
}

function goOn({ management, mcp, sample }: Places): void {
  const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'echo', arguments: { message: 'hi' } } };
  const run = { ...call, params: { name: 'run-javascript', arguments: { code: 'console.log(6 * 7)' } } };
  const client = { mcpServers: { sluice: { type: 'http', url: mcp } } };
  const lines: [what: string, line: string][] = [
    ['What is registered', `curl ${management}/api/v1/forwards`],
    ['A call by hand', `curl ${mcp} -H 'Accept: application/json' -d '${JSON.stringify(call)}'`],
    [
      'Code, run by the sample capability service',
      `curl ${sample} -H 'Accept: application/json' -d '${JSON.stringify(run)}'`,
    ],
    ['Tool calls as they happen', `curl -N ${management}/api/v1/tool-calls/notifications`],
    ['A server of yours', `curl ${management}/api/v1/forwards -d '{"name":"mine","address":"http://HOST:PORT/mcp"}'`],
    ['In the configuration of an MCP client', JSON.stringify(client)],
  ];
  for (const [what, line] of lines) console.log(`\n${styleText('bold', what)}\n  ${styleText('cyan', line)}`);
  console.log('\nServing until Ctrl-C; the registry of this demo goes with it.');
}

const { values } = parseArgs({ options: { once: { type: 'boolean', default: false } } });
await demo(values.once);

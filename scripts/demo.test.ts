import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type Server } from 'node:net';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { stripVTControlCharacters } from 'node:util';
import { afterEach, expect, test, vi } from 'vitest';

const DEMO = fileURLToPath(new URL('./demo.ts', import.meta.url));

// Each test starts four processes, one after the other.
vi.setConfig({ testTimeout: 90_000 });

const running: ChildProcess[] = [];
const servers: Server[] = [];

afterEach(async () => {
  for (const child of running.splice(0)) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    child.kill('SIGTERM');
    await once(child, 'exit');
  }
  for (const server of servers.splice(0)) server.close();
});

/** Runs the demo; `onLine` receives each line of its output. Resolves with all lines and the exit code. */
async function run(
  args: readonly string[],
  onLine: (line: string, demo: ChildProcess) => void = () => {},
): Promise<{ lines: string[]; code: number | null }> {
  const demo = spawn(process.execPath, [DEMO, ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
  running.push(demo);
  const lines: string[] = [];
  createInterface({ input: demo.stdout }).on('line', (line) => {
    lines.push(line);
    onLine(line, demo);
  });
  await once(demo, 'close');
  return { lines, code: demo.exitCode };
}

/** Makes sure that a loopback port is in use: listens on it unless another process does. */
async function occupy(port: number): Promise<void> {
  const server = createServer();
  servers.push(server);
  server.listen(port, '127.0.0.1');
  await once(server, 'listening').catch(() => undefined);
}

function processOf(line: string): number {
  return Number(/\(process (\d+)\)/.exec(line)?.[1]);
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

test('walks an agent through the service, on other ports when the default ones are in use, and exits with --once', {
  tags: ['slow'],
}, async () => {
  await Promise.all([occupy(8080), occupy(8081), occupy(3001), occupy(50051)]);
  const { lines, code } = await run(['--once']);
  expect(lines).toEqual([
    expect.stringMatching(/^✓ upstream {2}@modelcontextprotocol\/server-everything at http:\/\/127\.0\.0\.1:\d+\/mcp/),
    expect.stringMatching(
      /^✓ sluice {4}management API at http:\/\/127\.0\.0\.1:\d+, MCP at http:\/\/127\.0\.0\.1:\d+ /,
    ),
    expect.stringMatching(/^✓ sample {4}capability service at 127\.0\.0\.1:\d+, registered /),
    expect.stringMatching(/^✓ register {2}POST \/api\/v1\/forwards: .* has 1\d tools, \d+ resources, \d+ prompts$/),
    expect.stringMatching(/^✓ connect {3}MCP session with mcp-servers\/everything \d+\.\d+\.\d+, protocol 2025-11-25$/),
    expect.stringMatching(/^✓ list {6}tools\/list, answered from the registry: 1\d tools, including echo$/),
    '✓ call      tools/call echo, answered by the upstream: "Echo: hello through Sluice"',
    '✓ reject    tools/call not-registered: error -32602, tool not found: not-registered',
    '✓ progress  tools/call trigger-long-running-operation: 1/4 2/4 3/4 4/4, then the result',
    '✓ grpc      tools/call echo in namespace sample, answered by the capability service: {"message":"hello over gRPC"}',
    '✓ code      tools/call run-javascript: RUNNING, code, runs, elsewhere, then the result',
    expect.stringMatching(
      /^✓ events {4}GET \/api\/v1\/tool-calls: echo STARTED, echo COMPLETED \(\d+ ms\), (code-execution\/sample\/javascript) STARTED, \1 COMPLETED \(\d+ ms\)$/,
    ),
  ]);
  expect(lines.join('\n')).not.toMatch(/:(?:8080|8081|3001|50051)\b/);
  expect(lines.map(stripVTControlCharacters)).toEqual(lines);
  expect(code).toBe(0);
});

test('serves until it is stopped, and stops its processes', { tags: ['slow'] }, async () => {
  let management: string | undefined;
  let served: Promise<number> | undefined;
  const { lines, code } = await run([], (line, demo) => {
    management ??= /management API at (http:[^,]+),/.exec(line)?.[1];
    if (!line.startsWith('Serving until Ctrl-C')) return;
    served = fetch(`${management}/api/v1/forwards/everything`)
      .then(({ status }) => status)
      .finally(() => demo.kill('SIGINT'));
  });
  // Shows the output of the demo on failure.
  expect([code, lines]).toEqual([0, expect.arrayContaining([expect.stringMatching(/^Serving until Ctrl-C/)])]);
  expect(await served).toBe(200);
  const pids = lines.map(processOf).filter((pid) => !Number.isNaN(pid));
  expect(pids).toHaveLength(3);
  expect(pids.filter(isRunning)).toEqual([]);
});

test('reports the failed step and its reason, and exits with code 1', { tags: ['slow'] }, async () => {
  const { lines, code } = await run([], (line) => {
    if (line.startsWith('✓ upstream')) process.kill(processOf(line), 'SIGKILL');
  });
  expect(lines).toContainEqual(expect.stringMatching(/^✗ register {2}forward everything: upstream .* refused/));
  expect(lines.filter((line) => line.startsWith('✓ connect'))).toEqual([]);
  expect(code).toBe(1);
});

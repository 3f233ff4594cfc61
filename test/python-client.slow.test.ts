import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it, onTestFinished } from 'vitest';
import { startLiveUpstream } from '../packages/server/testing/live-upstream.ts';
import { startTestService } from '../packages/server/testing/service.ts';

// The official client in Python, where a Python with the package `mcp` is installed: its path may be in MCP_PYTHON.

const run = promisify(execFile);
const PROGRAM = fileURLToPath(import.meta.resolve('./fixtures/python-client/timeouts.py'));
const python = process.env.MCP_PYTHON ?? 'python3';
const isInstalled = await run(python, ['-c', 'from mcp.client.streamable_http import streamable_http_client']).then(
  () => true,
  () => false,
);

const CALLS = 10;

it.skipIf(!isInstalled)('requests no stream again and again after calls that timed out', async () => {
  const upstream = await startLiveUpstream();
  onTestFinished(upstream.close);
  const service = await startTestService();
  onTestFinished(() => service.stop(0));
  await service.register('forwards', { name: 'live', address: upstream.url });
  const { stdout } = await run(python, [PROGRAM, service.url(), String(CALLS)]);
  expect(stdout.trim().split('\n')).toEqual([...Array.from({ length: CALLS }, () => 'timed out'), 'idle']);
  const statuses = service.log
    .map((line) => JSON.parse(line))
    .filter(({ target, method }) => target === 'service::mcp::access' && method === 'GET')
    .map(({ status }) => status);
  // One notification stream; then at most three attempts per call.
  expect(statuses.filter((status) => status !== 405)).toEqual([200]);
  expect(statuses.length).toBeLessThanOrEqual(1 + 3 * CALLS);
});

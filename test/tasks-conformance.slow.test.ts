import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Check, readChecks } from './conformance/check.ts';
import { entryOf } from './conformance/suites.ts';
import { ENVIRONMENT } from './fixtures/environment.ts';
import { type Gateway, startGateway } from './fixtures/gateway.ts';
import { startTasksUpstream, type TasksUpstream } from './fixtures/tasks-upstream.ts';

// The scenarios of the public suite for the tasks extension, which are outside of its scored set.
const SCENARIOS = [
  'tasks-lifecycle',
  'tasks-capability-negotiation',
  'tasks-wire-fields',
  'tasks-request-state-removal',
  'tasks-mrtr-input',
  'tasks-request-headers',
  'tasks-dispatch-and-envelope',
  'tasks-required-task-error',
  'tasks-mrtr-composition',
] as const;

const SUITE = { name: 'tasks', package: '@modelcontextprotocol/conformance', args: [] };

let upstreams: readonly TasksUpstream[];
let gateway: Gateway;
let strict: Gateway;
beforeAll(async () => {
  upstreams = [await startTasksUpstream(), await startTasksUpstream()];
  gateway = await startGateway();
  strict = await startGateway({ env: { SERVICE_TASKS_FOR_PLAIN_CLIENTS: '0' } });
  for (const each of [gateway, strict]) {
    await each.api('POST', '/api/v1/forwards', { name: 'other', address: upstreams[1]?.url, prefix: 'other.' });
    await each.forward('upstream', upstreams[0]?.url ?? '');
  }
}, 120_000);
afterAll(async () => {
  await Promise.all([gateway?.close(), strict?.close(), ...(upstreams ?? []).map((upstream) => upstream.close())]);
});

/** Runs a scenario; returns the ids and results of its checks. */
async function run(scenario: string, url: string): Promise<string[]> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-tasks-'));
  try {
    const output = join(folder, 'output');
    const args = ['--url', url, '--scenario', scenario, '--spec-version', '2026-07-28', '--force', '-o', output];
    const child = spawn(process.execPath, [entryOf(SUITE), 'server', ...args], {
      cwd: folder,
      env: { ...ENVIRONMENT, HOME: folder },
      stdio: 'ignore',
      timeout: 60_000,
    });
    await once(child, 'close');
    const checks: Check[] = [];
    for (const entry of await readdir(output, { recursive: true, withFileTypes: true })) {
      if (entry.name === 'checks.json')
        checks.push(...readChecks(await readFile(join(entry.parentPath, entry.name), 'utf8')));
    }
    return checks.map(({ id, status }) => `${id}: ${status}`);
  } finally {
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  }
}

describe.each(SCENARIOS)('%s, beside another forward with tasks', (scenario) => {
  it('has the same results through the gateway as directly', async () => {
    const direct = await run(scenario, upstreams[0]?.url ?? '');
    expect(direct.filter((check) => !check.endsWith(': SUCCESS'))).toEqual([]);
    expect(direct.length).toBeGreaterThan(1);
    expect(await run(scenario, strict.url())).toEqual(direct);
    const through = await run(scenario, gateway.url());
    // The gateway polls for clients that do not declare the extension, so that they are not rejected.
    if (scenario === 'tasks-required-task-error') expect(through).not.toEqual(direct);
    else expect(through).toEqual(direct);
  }, 240_000);
});

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { status } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { ToolInvokeRequest__Output } from '../packages/server/src/upstreams/grpc/generated/tool/ToolInvokeRequest.ts';
import {
  type CapabilityService,
  StatusError,
  startCapabilityService,
  unaryHandler,
} from '../packages/server/testing/capability-service.ts';
import { type CommandLine, cells, startCommandLine } from './fixtures/command-line.ts';
import { ENVIRONMENT } from './fixtures/environment.ts';
import { freePort } from './fixtures/free-port.ts';
import { type Gateway, startGateway } from './fixtures/gateway.ts';
import { legacyClient } from './fixtures/raw-client.ts';

// `sluice tool-calls` with a gateway whose tools are executed by a capability service.

const SLUICE = fileURLToPath(new URL('../packages/cli/bin/sluice.mjs', import.meta.url));

let service: CapabilityService;
beforeAll(async () => {
  service = await startCapabilityService((server, { toolInvoker }) =>
    server.addService(toolInvoker, {
      InvokeTool: unaryHandler(({ uri, arguments: given }: ToolInvokeRequest__Output) => {
        if (uri === 'weather://storm') throw new StatusError(status.INTERNAL, 'struck by lightning');
        return { content: [`sunny in \u001b[31m${given.city}`] };
      }),
    }),
  );
});
afterAll(() => service.close());

/** Registers the service and its tools `sun` and `storm` by the management API at an address. */
async function startUpstream(management: string): Promise<void> {
  const add = async (kind: string, entry: object) => {
    const { status } = await fetch(`${management}/api/v1/${kind}`, { method: 'POST', body: JSON.stringify(entry) });
    expect(status).toBe(201);
  };
  await add('services', { name: 'weather', serviceType: 'tool-invoker', address: service.address });
  for (const name of ['sun', 'storm']) {
    await add('tools', { name, description: '', toolType: 'weather', uri: `weather://${name}`, input_schema: {} });
  }
}

/** An agent calls a tool. */
async function call(url: string, tool: string): Promise<void> {
  const client = await legacyClient(url);
  const { status } = await client.call('tools/call', `{"name":"${tool}","arguments":{"city":"Bern"}}`);
  expect(status).toBe(200);
}

describe('the latest events', () => {
  let line: CommandLine;
  beforeAll(async () => {
    line = await startCommandLine();
    await startUpstream(line.service.management);
  });
  afterAll(() => line.close());

  it('are listed newest first, and can be filtered by tool, category and number', async () => {
    expect(await line.sluice(['tool-calls'])).toEqual({ code: 0, out: '', err: 'no tool calls\n' });
    await call(line.service.url(), 'sun');
    await call(line.service.url(), 'storm');
    const [head, ...rows] = cells(await line.text('tool-calls'));
    expect(head).toEqual(['TIME', 'CALL', 'EVENT', 'TOOL', 'NAMESPACE', 'SERVICE', 'MS', 'DETAIL']);
    expect(rows.map((row) => row.slice(2, 6))).toEqual([
      ['FAILED', 'storm', 'default', 'weather'],
      ['STARTED', 'storm', 'default', 'weather'],
      ['COMPLETED', 'sun', 'default', 'weather'],
      ['STARTED', 'sun', 'default', 'weather'],
    ]);
    expect(rows.map((row) => row[7])).toEqual([
      expect.stringMatching(/^SERVICE_UNAVAILABLE: .*lightning/),
      'city',
      'sunny in \\u001b[31mBern',
      'city',
    ]);
    const [failed, began] = rows.map((row) => row[1]);
    expect(failed).toMatch(/^[0-9a-f]{8}$/);
    expect(began).toBe(failed);
    const chosen = async (...argv: string[]) =>
      cells(await line.text('tool-calls', ...argv)).map((row) => `${row[3]} ${row[2]}`);
    expect(await chosen('--tool', 'sun')).toEqual(['TOOL EVENT', 'sun COMPLETED', 'sun STARTED']);
    expect(await chosen('--category', 'SERVICE_UNAVAILABLE')).toEqual(['TOOL EVENT', 'storm FAILED']);
    expect(await chosen('--limit', '1')).toEqual(['TOOL EVENT', 'storm FAILED']);
  });

  it('are the payload of the API with --output json', async () => {
    await call(line.service.url(), 'sun');
    const printed = await line.json('tool-calls', '--limit', '2');
    expect(printed).toEqual((await line.service.manage('GET', '/tool-calls?limit=2')).data);
    expect(printed).toMatchObject([{ eventType: 'COMPLETED' }, { eventType: 'STARTED', argumentNames: ['city'] }]);
  });

  it('are not followed if the service is unreachable at the start', async () => {
    const host = `http://127.0.0.1:${await freePort()}`;
    expect(await line.sluice(['tool-calls', '-f', '--host', host])).toEqual({
      code: 1,
      out: '',
      err: `sluice: connection refused by ${host}: check that the service is running\n`,
    });
  });
});

describe('--follow as a process', () => {
  let gateway: Gateway;
  let home: string;
  beforeAll(async () => {
    home = await mkdtemp(join(tmpdir(), 'sluice-tool-calls-'));
    const [management, mcp] = await Promise.all([freePort(), freePort()]);
    gateway = await startGateway({ management: `127.0.0.1:${management}`, mcp: `127.0.0.1:${mcp}` });
    await startUpstream(`http://${gateway.management()}`);
  });
  afterAll(async () => {
    await gateway.close();
    await rm(home, { recursive: true });
  });

  /** Starts it as a process, and waits until it is connected. */
  async function follow() {
    const argv = [SLUICE, 'tool-calls', '--host', `http://${gateway.management()}`, '--no-auth', '--follow'];
    const child = spawn(process.execPath, argv, { cwd: home, env: { ...ENVIRONMENT, HOME: home } });
    onTestFinished(() => void child.kill('SIGKILL'));
    child.stdin.end();
    const errorOutput: string[] = [];
    const errors = createInterface(child.stderr).on('line', (line) => errorOutput.push(line));
    const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
    await once(errors, 'line');
    return { child, errorOutput, line: async () => String((await lines.next()).value) };
  }

  async function exitCode(child: ChildProcess): Promise<number | null> {
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    return child.exitCode;
  }

  it('prints events from its start until Ctrl-C', async () => {
    await call(gateway.url(), 'sun');
    const { child, errorOutput, line } = await follow();
    await call(gateway.url(), 'storm');
    expect(await line()).toMatch(/^TIME +CALL +EVENT +TOOL +NAMESPACE +SERVICE +MS +DETAIL$/);
    expect(await line()).toMatch(/^\S+Z {2}[0-9a-f]{8} {2}STARTED +storm +default +weather +- +city$/);
    expect(await line()).toMatch(/ FAILED +storm +default +weather +[\d.]+ +SERVICE_UNAVAILABLE: .*lightning/);
    child.kill('SIGINT');
    expect(await exitCode(child)).toBe(130);
    expect(errorOutput).toEqual([
      `sluice: following tool calls at http://${gateway.management()}; press Ctrl-C to stop`,
    ]);
  });

  it('exits silently when its output is closed', async () => {
    const { child, errorOutput, line } = await follow();
    await call(gateway.url(), 'sun');
    await line();
    child.stdout.destroy();
    await call(gateway.url(), 'sun');
    expect(await exitCode(child)).toBe(0);
    expect(errorOutput).toHaveLength(1);
  });

  it('reconnects after an outage of the service, reports it and prints missed events', async () => {
    const { child, errorOutput, line } = await follow();
    await call(gateway.url(), 'sun');
    expect([await line(), await line(), await line()]).toEqual([
      expect.stringContaining('TIME'),
      expect.stringContaining('STARTED'),
      expect.stringContaining('COMPLETED'),
    ]);
    await gateway.kill();
    await expect.poll(() => errorOutput.length).toBe(3);
    await gateway.restart();
    await call(gateway.url(), 'storm');
    expect([await line(), await line()]).toEqual([
      expect.stringContaining('storm'),
      expect.stringMatching(/FAILED +storm/),
    ]);
    const host = `http://${gateway.management()}`;
    await expect
      .poll(() => errorOutput.slice(1))
      .toEqual([
        `sluice: the connection to ${host} was lost (retrying)`,
        `sluice: connection refused by ${host}: check that the service is running (retrying)`,
        'sluice: reconnected; events may have been missed if the service was restarted',
      ]);
    child.kill('SIGINT');
    expect(await exitCode(child)).toBe(130);
  }, 60_000);
});

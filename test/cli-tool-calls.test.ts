import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { status } from '@grpc/grpc-js';
import { toolCallEvent } from '@sluice/contract';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import type { ToolInvokeRequest__Output } from '../packages/server/src/bridge/generated/tool/ToolInvokeRequest.ts';
import {
  answering,
  type CapabilityService,
  Refusal,
  startCapabilityService,
} from '../packages/server/src/testing/capability-service.ts';
import { cells } from './fixtures/command-line.ts';
import { type Gateway, startGateway } from './fixtures/gateway.ts';
import { legacyClient } from './fixtures/raw-client.ts';

// `sluice tool-calls` as people run it: a process, beside a gateway whose tools a capability service carries out.

const SLUICE = fileURLToPath(new URL('../packages/cli/bin/sluice.mjs', import.meta.url));

let gateway: Gateway;
let service: CapabilityService;
let home: string;
beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'sluice-tool-calls-'));
  service = await startCapabilityService((server, { toolInvoker }) =>
    server.addService(toolInvoker, {
      InvokeTool: answering(({ uri, arguments: given }: ToolInvokeRequest__Output) => {
        if (uri === 'weather://storm') throw new Refusal(status.INTERNAL, 'struck by lightning');
        return { content: [`sunny in \u001b[31m${given.city}`] };
      }),
    }),
  );
});
beforeEach(async () => {
  gateway = await startGateway();
  const entry = { name: 'weather', serviceType: 'tool-invoker', address: service.address };
  expect((await gateway.api('POST', '/api/v1/services', entry)).status).toBe(201);
  for (const name of ['sun', 'storm']) {
    const tool = { name, description: '', toolType: 'weather', uri: `weather://${name}`, input_schema: {} };
    expect((await gateway.api('POST', '/api/v1/tools', tool)).status).toBe(201);
  }
});
afterEach(() => gateway.close());
afterAll(async () => {
  service.close();
  await rm(home, { recursive: true });
});

/** An agent calls a tool. */
async function call(tool: string): Promise<void> {
  const client = await legacyClient(gateway.url());
  const { status } = await client.call('tools/call', `{"name":"${tool}","arguments":{"city":"Bern"}}`);
  expect(status).toBe(200);
}

const ARGUMENTS = () => ['tool-calls', '--host', `http://${gateway.management()}`, '--no-auth'];

function start(argv: readonly string[]) {
  const child = spawn(process.execPath, [SLUICE, ...ARGUMENTS(), ...argv], {
    cwd: home,
    env: { PATH: process.env.PATH, HOME: home },
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  child.stdin.end();
  return child;
}

async function exitCode(child: ChildProcess): Promise<number | null> {
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
  return child.exitCode;
}

async function sluice(...argv: string[]) {
  const child = start(argv);
  const [out, err, code] = await Promise.all([text(child.stdout), text(child.stderr), exitCode(child)]);
  return { code, out, err };
}

/** `--follow`, once it has begun. */
async function follow(...argv: string[]) {
  const child = start(['--follow', ...argv]);
  const said: string[] = [];
  const errors = createInterface(child.stderr).on('line', (line) => said.push(line));
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  await once(errors, 'line');
  return { child, said, line: async () => String((await lines.next()).value) };
}

describe('the latest events', () => {
  it('are listed newest first, and can be chosen by tool, category and number', async () => {
    expect(await sluice()).toEqual({ code: 0, out: '', err: 'no tool calls\n' });
    await call('sun');
    await call('storm');
    const { code, out, err } = await sluice();
    expect({ code, err }).toEqual({ code: 0, err: '' });
    const [head, ...rows] = cells(out);
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
    const chosen = async (...argv: string[]) => cells((await sluice(...argv)).out).map((row) => `${row[3]} ${row[2]}`);
    expect(await chosen('--tool', 'sun')).toEqual(['TOOL EVENT', 'sun COMPLETED', 'sun STARTED']);
    expect(await chosen('--category', 'SERVICE_UNAVAILABLE')).toEqual(['TOOL EVENT', 'storm FAILED']);
    expect(await chosen('--limit', '1')).toEqual(['TOOL EVENT', 'storm FAILED']);
  });

  it('are the payload of the API with --output json', async () => {
    await call('sun');
    const { out } = await sluice('--output', 'json');
    const { body } = await gateway.api('GET', '/api/v1/tool-calls');
    expect({ data: JSON.parse(out), error: null }).toEqual(body);
    expect(JSON.parse(out)).toHaveLength(2);
  });

  it('are not asked for with a category that there is not', async () => {
    const { code, out, err } = await sluice('--category', 'execution_eror');
    expect({ code, out }).toEqual({ code: 1, out: '' });
    expect(err).toMatch(/^sluice: .*SERVICE_UNAVAILABLE, .*UNKNOWN\.\n\(Did you mean EXECUTION_ERROR\?\)\n$/);
  });
});

describe('--follow', () => {
  it('prints what happens from then on, until Ctrl-C', async () => {
    await call('sun');
    const { child, said, line } = await follow();
    await call('storm');
    expect(await line()).toMatch(/^\S+Z {2}[0-9a-f]{8} {2}STARTED +storm +default +weather +- +city$/);
    expect(await line()).toMatch(/ FAILED +storm +default +weather +[\d.]+ +SERVICE_UNAVAILABLE: .*lightning/);
    child.kill('SIGINT');
    expect(await exitCode(child)).toBe(130);
    expect(said).toEqual([`sluice: following the tool calls at http://${gateway.management()}; Ctrl-C ends it`]);
  });

  it('prints the wanted ones alone, as JSON one per line', async () => {
    const { child, line } = await follow('--output', 'json', '--tool', 'storm', '--category', 'SERVICE_UNAVAILABLE');
    await call('sun');
    await call('storm');
    await call('storm');
    for (let at = 0; at < 2; at += 1) {
      const event = toolCallEvent.parse(JSON.parse(await line()));
      expect(event).toMatchObject({ eventType: 'FAILED', toolName: 'storm' });
    }
    child.kill('SIGINT');
    expect(await exitCode(child)).toBe(130);
  });

  it('begins with some of the latest when it is asked to', async () => {
    await call('sun');
    const { child, line } = await follow('--limit', '1');
    await call('storm');
    expect(await line()).toMatch(/ COMPLETED +sun /);
    expect(await line()).toMatch(/ STARTED +storm /);
    child.kill('SIGINT');
    expect(await exitCode(child)).toBe(130);
  });

  it('goes on when the service was away, with what came meanwhile, and says so', async () => {
    const { child, said, line } = await follow();
    await call('sun');
    expect([await line(), await line()]).toEqual([
      expect.stringContaining('STARTED'),
      expect.stringContaining('COMPLETED'),
    ]);
    await gateway.kill();
    await expect.poll(() => said.length, { timeout: 10_000 }).toBe(3);
    await gateway.restart();
    await call('storm');
    expect([await line(), await line()]).toEqual([
      expect.stringContaining('storm'),
      expect.stringMatching(/FAILED +storm/),
    ]);
    const host = `http://${gateway.management()}`;
    expect(said.slice(1)).toEqual([
      `sluice: the connection to ${host} broke off (trying again)`,
      `sluice: connection refused: is the service running at ${host}? (trying again)`,
      'sluice: connected again; events may have been missed, if the service was started anew',
    ]);
    child.kill('SIGINT');
    expect(await exitCode(child)).toBe(130);
  }, 60_000);

  it('says that events were missed when it was more than 1000 behind, and goes on', async () => {
    const { child, said } = await follow('--output', 'json');
    child.kill('SIGSTOP');
    const client = await legacyClient(gateway.url());
    const body = `{"name":"sun","arguments":{"city":"${'x'.repeat(16_384)}"}}`;
    // What lies between the service and the command takes some megabytes, and a thousand more are waited for.
    for (let calls = 0; calls < 80; calls += 1) {
      await Promise.all(Array.from({ length: 20 }, () => client.call('tools/call', body)));
    }
    child.kill('SIGCONT');
    await expect.poll(() => said.length, { timeout: 10_000 }).toBe(3);
    expect(said.slice(1)).toEqual([
      `sluice: the connection to http://${gateway.management()} broke off (trying again)`,
      'sluice: connected again; events were missed: no more than the latest 1000 are kept',
    ]);
    child.kill('SIGINT');
    expect(await exitCode(child)).toBe(130);
  }, 60_000);

  it('ends quietly when nobody reads any more', async () => {
    const { child, said } = await follow();
    await call('sun');
    await once(child.stdout, 'data');
    child.stdout.destroy();
    await call('sun');
    expect(await exitCode(child)).toBe(0);
    expect(said).toHaveLength(1);
  });

  it('fails when the service is not there in the beginning', async () => {
    await gateway.kill();
    const host = `http://${gateway.management()}`;
    expect(await sluice('-f')).toEqual({
      code: 1,
      out: '',
      err: `sluice: connection refused: is the service running at ${host}?\n`,
    });
  });
});

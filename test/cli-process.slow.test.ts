import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { access, copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { NODE_FLAGS } from '../packages/server/src/app/node-flags.mjs';
import { ENVIRONMENT } from './fixtures/environment.ts';
import { freePort } from './fixtures/free-port.ts';
import { type Gateway, startGateway } from './fixtures/gateway.ts';
import { listen } from './fixtures/http-server.ts';

// The command line client as people run it: a process, in pipes, with signals and exit codes.

const SLUICE = fileURLToPath(new URL('../packages/cli/bin/sluice.mjs', import.meta.url));
const BIN = fileURLToPath(new URL('../node_modules/.bin', import.meta.url));

let gateway: Gateway;
let home: string;
beforeAll(async () => {
  [gateway, home] = await Promise.all([startGateway(), mkdtemp(join(tmpdir(), 'sluice-cli-process-'))]);
});
afterAll(async () => {
  await gateway.close();
  await rm(home, { recursive: true });
});

const TOOL = {
  name: 'weather',
  description: 'x'.repeat(1000),
  uri: 'http://127.0.0.1:9/mcp',
  toolType: 'mcp-forward',
  input_schema: { type: 'object' },
};

function start(argv: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const PATH = `${BIN}${delimiter}${process.env.PATH}`;
  return spawn(process.execPath, [SLUICE, ...argv], { cwd: home, env: { ...ENVIRONMENT, PATH, HOME: home, ...env } });
}

async function exitCode(child: ChildProcess): Promise<number | null> {
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
  return child.exitCode;
}

async function sluice(...argv: string[]) {
  const child = start(argv);
  child.stdin.end();
  const [out, err, code] = await Promise.all([text(child.stdout), text(child.stderr), exitCode(child)]);
  return { code, out, err };
}

const context = () => ['--host', `http://${gateway.management()}`, '--no-auth'];

describe('a command', () => {
  it('prints a table or JSON to a pipe, and exits with 0', async () => {
    expect((await gateway.api('POST', '/api/v1/tools', TOOL)).status).toBe(201);
    const [table, json] = await Promise.all([
      sluice(...context(), 'tools', 'list'),
      sluice('tools', 'list', '--output', 'json', ...context()),
    ]);
    expect(table).toMatchObject({ code: 0, err: '' });
    expect(table.out).toMatch(/^NAME .*\nweather +default +mcp-forward +- +x{79}…\n$/);
    expect(json).toMatchObject({ code: 0, err: '' });
    expect(JSON.parse(json.out)).toEqual([expect.objectContaining(TOOL)]);
  });

  it('prints help without arguments, YAML with -o yaml, and changes nothing unconfirmed', async () => {
    await writeFile(join(home, 'state.yaml'), 'namespaces: [{ name: unconfirmed }]');
    const [bare, group, yaml, unconfirmed] = await Promise.all([
      sluice(),
      sluice('forward'),
      sluice('namespace', 'get', 'default', '-o', 'yaml', '--host', gateway.management()),
      sluice('apply', '-f', 'state.yaml', '--host', gateway.management()),
    ]);
    expect(bare).toEqual({ code: 0, out: expect.stringMatching(/^Usage: sluice \[options\] \[command\]\n/), err: '' });
    expect(group).toEqual({ code: 0, out: expect.stringMatching(/^Usage: sluice forwards /), err: '' });
    expect(yaml).toEqual({ code: 0, out: 'name: default\nlabels: {}\n', err: '' });
    expect(unconfirmed).toEqual({
      code: 1,
      out: expect.stringMatching(/^\+ namespace unconfirmed\n/),
      err: 'sluice: no terminal for a confirmation: use --yes to apply this change, or --dry-run to print it only\n',
    });
    expect((await gateway.api('GET', '/api/v1/namespaces/unconfirmed')).status).toBe(404);
  });

  it('that fails exits with 1 and a line on standard error', async () => {
    const host = `http://127.0.0.1:${await freePort()}`;
    const [rejected, misspelt] = await Promise.all([sluice('health', '--no-auth', '--host', host), sluice('heatlh')]);
    expect(rejected).toEqual({
      code: 1,
      out: '',
      err: `sluice: connection refused by ${host}: check that the service is running\n`,
    });
    expect(misspelt).toEqual({ code: 1, out: '', err: "sluice: unknown command 'heatlh'\n(Did you mean health?)\n" });
  });

  it('whose pipe is closed exits silently', async () => {
    // Many times the capacity of a pipe.
    const description = 'x'.repeat(20_000);
    for (let at = 0; at < 200; at += 1)
      await gateway.api('POST', '/api/v1/tools', { ...TOOL, name: `tool-${at}`, description });
    const child = start([...context(), 'tools', 'list', '--output', 'json']);
    child.stdout.once('data', () => child.stdout.destroy());
    const [err, code] = await Promise.all([text(child.stderr), exitCode(child)]);
    expect({ code, err }).toEqual({ code: 0, err: '' });
  });

  it('that is interrupted exits silently with 130', async () => {
    const requested = Promise.withResolvers<void>();
    const silent = createServer(() => requested.resolve());
    const port = await listen(silent, 0);
    const child = start(['forwards', 'refresh', 'crm', '--no-auth', '--host', `http://127.0.0.1:${port}`]);
    const output = Promise.all([text(child.stdout), text(child.stderr)]);
    await requested.promise;
    child.kill('SIGINT');
    expect([await exitCode(child), await output]).toEqual([130, ['', '']]);
    silent.close();
    silent.closeAllConnections();
  });
});

describe('on an older Node.js', () => {
  /** The system's own Node.js, in addition to the one installed by npm. */
  const older = (process.env.PATH ?? '')
    .split(delimiter)
    .filter((folder) => !folder.includes('node_modules'))
    .map((folder) => join(folder, 'node'))
    .find((node) => existsSync(node));
  const major =
    older && Number(execFileSync(older, ['-p', 'process.versions.node.split(".")[0]'], { encoding: 'utf8' }));

  it.runIf(older !== undefined && Number(major) < 26)('runs on the Node.js installed with it', async () => {
    const child = spawn(older ?? '', [SLUICE, 'tools', 'list', '--verbose', ...context()], { env: { HOME: home } });
    const [out, err, code] = await Promise.all([text(child.stdout), text(child.stderr), exitCode(child)]);
    expect({ code, err }).toMatchObject({ code: 0, err: expect.stringMatching(/^GET \/api\/v1\/tools 200 /) });
    expect(out).toMatch(/^NAME /);
  });

  /**
   * The command alone, copied to a temporary folder, on a Node.js that reports an older version. The folder has its
   * own, equally old, Node.js, which counts its starts.
   */
  async function copied(below: string, manifest: object) {
    const folder = await mkdtemp(join(home, 'older-'));
    const script = join(folder, below, 'bin/sluice.mjs');
    const node = join(folder, `node_modules/node-${process.platform}-${process.arch}/bin/node`);
    const runs = join(folder, 'runs');
    await mkdir(dirname(script), { recursive: true });
    await mkdir(dirname(node), { recursive: true });
    await copyFile(SLUICE, script);
    await copyFile(join(dirname(SLUICE), 'node.mjs'), join(dirname(script), 'node.mjs'));
    await writeFile(join(folder, 'package.json'), JSON.stringify(manifest));
    await writeFile(runs, '');
    await writeFile(
      node,
      `#!/bin/sh\necho >>'${runs}'\n[ "$(wc -l <'${runs}')" -gt 3 ] || exec '${process.execPath}' "$@"\n`,
      { mode: 0o755 },
    );
    const older = "Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.1.0' } })";
    const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(older)}`;
    const child = spawn(process.execPath, [script, 'health'], {
      env: { HOME: home, PATH: process.env.PATH, NODE_OPTIONS },
    });
    const [err, code] = await Promise.all([text(child.stderr), exitCode(child)]);
    return { code, err, runs: (await readFile(runs, 'utf8')).length };
  }
  const rejected = { code: 1, err: expect.stringMatching(/^sluice: needs Node\.js 26, this is v.+\n$/) };

  it('does not restart itself repeatedly when that one is too old as well', async () => {
    expect(await copied('packages/cli', { workspaces: [] })).toEqual({ ...rejected, runs: 1 });
  });

  it.each([
    ['packages/cli', {}],
    ['deep/below/cli', { workspaces: [] }],
  ])('does not run a Node.js that was not installed with it (%s)', async (below, manifest) => {
    expect(await copied(below, manifest)).toEqual({ ...rejected, runs: 0 });
  });
});

describe('sluice serve', () => {
  it('becomes the service, with its runtime flags, and stops gracefully', async () => {
    const child = start(['serve', '--local'], {
      SERVICE_PERSIST_BACKEND: 'none',
      SERVICE_MGMT_LISTEN: '0.0.0.0:0',
      SERVICE_MCP_LISTEN: '127.0.0.1:0',
      SERVICE_INFERENCE_LISTEN: '127.0.0.1:0',
    });
    for await (const line of createInterface(child.stderr)) if (line.includes('"listening"')) break;
    const { stdout } = await promisify(execFile)('ps', ['-o', 'args=', '-p', String(child.pid)]);
    expect(stdout).toContain(` ${NODE_FLAGS.join(' ')} `);
    expect(stdout).toMatch(/server\/src\/main\.ts --local$/m);
    child.kill('SIGTERM');
    expect(await exitCode(child)).toBe(0);
  });

  it.each([
    ['--host', 'http://127.0.0.1:1', 'SERVICE_MGMT_LISTEN'],
    ['--token', 'sesame', 'authenticating proxy'],
    ['--output', 'json', 'RUST_LOG'],
  ])('rejects %s, which has no effect on a service, and names the right setting', async (option, value, advice) => {
    for (const argv of [
      ['serve', option, value],
      [option, value, 'serve'],
    ]) {
      const { code, out, err } = await sluice(...argv);
      expect([code, out]).toEqual([1, '']);
      expect(err).toMatch(/^sluice: [^\n]+\n$/);
      expect(err).toContain(`sluice serve does not accept ${option}: `);
      expect(err).toContain(advice);
      expect(err).not.toContain(value);
    }
  });

  it('passes its flags to the service, and returns its exit code', async () => {
    const { code, err } = await sluice('serve', '--service-config', 'missing.yaml');
    expect(code).toBe(1);
    expect(err).toMatch(/^sluice: --service-config.*missing\.yaml.*\n$/);
  });
});

describe('completion in bash', () => {
  it('completes commands and names, and quotes shell syntax', async () => {
    const hostile = '$(touch pwned)';
    await gateway.api('POST', '/api/v1/tools', { ...TOOL, name: hostile, namespace: 'shell' });
    // Two lines, each completed with the tab key.
    const script = `
      set -eu
      source <(sluice completion bash)
      press() { COMP_LINE=$1 COMP_POINT=\${#1}; _sluice; printf '%s\\n' "\${COMPREPLY[@]}"; }
      press 'sluice tools la'
      press 'sluice ${context().join(' ')} tools show \\$'
    `;
    const env = { ...ENVIRONMENT, PATH: `${BIN}${delimiter}${process.env.PATH}`, HOME: home };
    const complete = async () => (await promisify(execFile)('bash', ['-c', script], { cwd: home, env })).stdout;
    // On a busy machine no name may be found within the time that a completion may take.
    await expect.poll(complete, { timeout: 60_000 }).toBe('label\n\\$\\(touch\\ pwned\\)\n');
    await expect(access(join(home, 'pwned'))).rejects.toThrow();
  });
});

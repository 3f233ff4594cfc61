import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { systemdPrograms } from '../fixtures/deploy-programs.ts';
import { startGateway } from '../fixtures/gateway.ts';

const run = promisify(execFile);
const UNIT = join(import.meta.dirname, '../../deploy/systemd/sluice.service');
const MAX_EXPOSURE = 2;

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-systemd-'));
});
afterAll(() => rm(folder, { recursive: true }));

describe.runIf(systemdPrograms.find() !== undefined)('the unit of systemd', () => {
  it('is valid', async () => {
    // With a program that exists here.
    const unit = join(folder, 'sluice.service');
    const text = await readFile(UNIT, 'utf8');
    await writeFile(unit, text.replace(/^ExecStart=\S+/m, `ExecStart=${process.execPath}`));
    const { stdout, stderr } = await run('systemd-analyze', ['verify', '--man=no', unit]);
    expect(stdout + stderr).toBe('');
  });

  it(`has an exposure of at most ${MAX_EXPOSURE}`, async () => {
    const { stdout } = await run('systemd-analyze', ['security', '--offline=yes', '--no-pager', UNIT]);
    const [, exposure] = /Overall exposure level for sluice\.service: ([\d.]+)/.exec(stdout) ?? [];
    expect(Number(exposure)).toBeLessThanOrEqual(MAX_EXPOSURE);
  });

  it('is notified that the service is ready, lives and stops', async () => {
    const manager = await startManager();
    const service = await startGateway({ env: { NOTIFY_SOCKET: manager.path, WATCHDOG_USEC: '200000' } });
    onTestFinished(() => service.close());
    await expect.poll(manager.messages).toMatch(/^READY=1.*WATCHDOG=1.*WATCHDOG=1/);
    expect(await service.stop()).toBe(0);
    await expect.poll(manager.messages).toContain('STOPPING=1');
  });

  it('is notified without a watchdog if it has none, or one of another process', async () => {
    const manager = await startManager();
    const env = { NOTIFY_SOCKET: manager.path, WATCHDOG_USEC: '1000', WATCHDOG_PID: '1' };
    const service = await startGateway({ env });
    onTestFinished(() => service.close());
    await expect.poll(manager.messages).toContain('READY=1');
    await service.stop();
    await expect.poll(manager.messages).toContain('STOPPING=1');
    expect(manager.messages()).not.toContain('WATCHDOG');
  });

  it('a failed notification is a warning', async () => {
    const service = await startGateway({ env: { NOTIFY_SOCKET: join(folder, 'gone') } });
    onTestFinished(() => service.close());
    await expect.poll(() => service.logs.map(({ msg }) => msg)).toContain('systemd-notify failed');
  });
});

/** A socket that receives notifications in systemd's place. */
async function startManager(): Promise<{ readonly path: string; readonly messages: () => string }> {
  const path = join(await mkdtemp(join(folder, 'manager-')), 'notify');
  const socat = spawn('socat', ['-u', `UNIX-RECV:${path}`, 'STDOUT'], { stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(async () => {
    const exited = once(socat, 'exit');
    socat.kill();
    await exited;
  });
  let messages = '';
  socat.stdout.on('data', (chunk) => {
    messages += String(chunk);
  });
  await expect.poll(() => existsSync(path)).toBe(true);
  return { path, messages: () => messages };
}

import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, rename, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ActionFileError, ActionFiles, readResolved } from './load.ts';

const MIB = 1024 * 1024;

/** With `config`, where paths start, and `actions`, where files may be. */
const MISSING = 'no such file (a relative path begins at the folder of the service-config file)';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-actions-'));
  for (const name of ['config', 'actions/deep', 'actions-not']) await mkdir(join(folder, name), { recursive: true });
  for (const name of ['config', 'actions', 'actions/deep', 'actions-not']) {
    await writeFile(join(folder, name, 'a.wasm'), `ok of ${name}`);
  }
});
afterEach(async () => {
  await rm(folder, { recursive: true });
});

function files(actionsPath?: string): ActionFiles {
  return new ActionFiles({
    baseFolder: join(folder, 'config'),
    actionsPath: actionsPath === undefined ? undefined : join(folder, actionsPath),
  });
}

async function refusal(reading: Promise<Buffer>): Promise<string> {
  const error = await reading.then(String, (reason: unknown) => reason);
  if (!(error instanceof ActionFileError)) throw new Error(`no ActionFileError but ${String(error)}`);
  expect(error.message).not.toContain(folder);
  return error.message;
}

describe('without SERVICE_ACTIONS_PATH', () => {
  it('a relative path starts at the base folder, and an absolute one is what it says', async () => {
    for (const [path, of] of [
      ['a.wasm', 'config'],
      ['../actions/deep/a.wasm', 'actions/deep'],
      [join(folder, 'actions/a.wasm'), 'actions'],
    ] as const) {
      expect(await files().mayRead(path)).toBe(true);
      expect((await files().read(path)).toString()).toBe(`ok of ${of}`);
    }
  });

  it.each([
    ['none.wasm', MISSING],
    ['/none.wasm', 'no such file'],
    ['a.wasm/b.wasm', MISSING],
    ['', 'is not a file'],
    ['../actions', 'is not a file'],
    ['a\0b', 'the file cannot be read'],
    ['x'.repeat(5_000), 'the file cannot be read'],
  ])('%j cannot be read', async (path, problem) => {
    expect(await refusal(files().read(path))).toBe(problem);
  });

  it('neither a pipe nor a device keeps anybody waiting', async () => {
    execFileSync('/bin/sh', ['-c', 'mkfifo "$1"', 'sh', join(folder, 'config/pipe')]);
    await symlink('/dev/zero', join(folder, 'config/endless'));
    for (const path of ['pipe', 'endless', '/dev/zero', '/dev/tty', '/dev/null']) {
      expect(await refusal(files().read(path)), path).toMatch(/^is not a file$|^no such file/);
    }
  });

  it('a file has 30 MiB at most', async () => {
    const path = join(folder, 'config/large.wasm');
    await writeFile(path, 'ok');
    await truncate(path, 30 * MIB);
    expect((await files().read('large.wasm')).length).toBe(30 * MIB);
    await truncate(path, 30 * MIB + 1);
    expect(await refusal(files().read('large.wasm'))).toBe('has more than 31457280 bytes; leave out debug information');
  });

  it('what a file says to hold and does not is not waited for', async () => {
    expect((await files().read('/proc/self/status')).length).toBe(0);
    // Of 4096 bytes, it says.
    expect((await files().read('/sys/kernel/uevent_seqnum')).toString()).toMatch(/^\d+\n$/);
  });
});

describe('with SERVICE_ACTIONS_PATH', () => {
  it('only what is inside may be read, after resolving links', async () => {
    const links = [
      ['actions/out.wasm', '../config/a.wasm'],
      ['actions/out', '../config'],
      ['actions/in.wasm', 'deep/a.wasm'],
      ['config/in', '../actions'],
      ['actions/loop', 'loop'],
      ['actions/nothing.wasm', '../config/nothing.wasm'],
    ] as const;
    for (const [name, target] of links) await symlink(target, join(folder, name));
    for (const [path, expected] of [
      ['../actions/a.wasm', true],
      ['../actions/deep/../a.wasm', true],
      ['../actions/in.wasm', true],
      ['in/deep/a.wasm', true],
      [join(folder, 'actions/deep/a.wasm'), true],
      // Nothing is there, but if something were, it would be inside.
      ['../actions/none.wasm', true],
      ['../actions/none/at/all.wasm', true],
      ['in/none.wasm', true],
      ['../actions/..a.wasm', true],
      ['../actions/..deep/a.wasm', true],
      ['a.wasm', false],
      ['', false],
      ['../actions', false],
      ['../actions/..', false],
      ['../actions-not/a.wasm', false],
      ['../actions/../config/a.wasm', false],
      ['../actions/out.wasm', false],
      ['../actions/out/a.wasm', false],
      ['../actions/out/none.wasm', false],
      ['../actions/loop', false],
      ['/etc/passwd', false],
      ['/none/at/all', false],
      ['../actions/a\0.wasm', false],
    ] as const) {
      expect(await files('actions').mayRead(path), path).toBe(expected);
    }
    expect((await files('actions').read('../actions/in.wasm')).toString()).toBe('ok of actions/deep');
    expect(await refusal(files('actions').read('../actions/nothing.wasm'))).toBe(MISSING);
  });

  it('that is a link itself, its target counts', async () => {
    await symlink('actions', join(folder, 'linked'));
    expect(await files('linked').mayRead('../actions/a.wasm')).toBe(true);
    expect(await files('linked').mayRead('../linked/a.wasm')).toBe(true);
  });

  it('a link that was turned since it was asked about is not followed outside', async () => {
    const link = join(folder, 'actions/turned.wasm');
    await symlink('a.wasm', link);
    expect(await files('actions').mayRead('../actions/turned.wasm')).toBe(true);
    await rm(link);
    await symlink('../config/a.wasm', link);
    expect(await refusal(files('actions').read('../actions/turned.wasm'))).toBe('is not inside SERVICE_ACTIONS_PATH');
  });

  it('a folder that became a link since its path was followed leads nowhere outside', async () => {
    const [root, path] = [join(folder, 'actions'), join(folder, 'actions/deep/a.wasm')];
    expect((await readResolved(path, root)).toString()).toBe('ok of actions/deep');
    await rename(join(folder, 'actions/deep'), join(folder, 'actions/other'));
    await symlink('other', join(folder, 'actions/deep'));
    expect((await readResolved(path, root)).toString()).toBe('ok of actions/deep');
    await rm(join(folder, 'actions/deep'));
    await symlink('../config', join(folder, 'actions/deep'));
    expect(await refusal(readResolved(path, root))).toBe('is not inside SERVICE_ACTIONS_PATH');
    expect((await readResolved(path, undefined)).toString()).toBe('ok of config');
  });
});

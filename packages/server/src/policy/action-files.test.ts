import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, rename, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readContainedFile } from '../http/secrets/contained-file.ts';
import { ActionFileError, ActionFiles } from './action-loader.ts';

const MIB = 1024 * 1024;

const MISSING = 'no such file (relative paths start at the folder of the bootstrap file)';

/** Contains `config`, the base of relative paths, and `actions`, the allowed folder. */
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

async function errorOf(reading: Promise<Buffer>): Promise<string> {
  const error = await reading.then(String, (reason: unknown) => reason);
  if (!(error instanceof ActionFileError)) throw new Error(`expected an ActionFileError, got ${String(error)}`);
  expect(error.message).not.toContain(folder);
  return error.message;
}

describe('without SERVICE_ACTIONS_PATH', () => {
  it('relative paths start at the base folder; absolute paths are used as they are', async () => {
    for (const [path, of] of [
      ['a.wasm', 'config'],
      ['../actions/deep/a.wasm', 'actions/deep'],
      [join(folder, 'actions/a.wasm'), 'actions'],
    ] as const) {
      expect(await files().isAllowed(path)).toBe(true);
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
    expect(await errorOf(files().read(path))).toBe(problem);
  });

  it('pipes and devices do not block', async () => {
    execFileSync('/bin/sh', ['-c', 'mkfifo "$1"', 'sh', join(folder, 'config/pipe')]);
    await symlink('/dev/zero', join(folder, 'config/endless'));
    for (const path of ['pipe', 'endless', '/dev/zero', '/dev/tty', '/dev/null']) {
      expect(await errorOf(files().read(path)), path).toMatch(/^is not a file$|^no such file/);
    }
  });

  it('a file has at most 30 MiB', async () => {
    const path = join(folder, 'config/large.wasm');
    await writeFile(path, 'ok');
    await truncate(path, 30 * MIB);
    expect((await files().read('large.wasm')).length).toBe(30 * MIB);
    await truncate(path, 30 * MIB + 1);
    expect(await errorOf(files().read('large.wasm'))).toBe('exceeds 31457280 bytes; remove debug information');
  });

  it('a file that is shorter than its size does not block', async () => {
    // Its size is reported as 0.
    expect((await files().read('/proc/self/status')).toString()).toMatch(/^Name:/);
    // Its size is reported as 4096 bytes.
    expect((await files().read('/sys/kernel/uevent_seqnum')).toString()).toMatch(/^\d+\n$/);
  });
});

describe('with SERVICE_ACTIONS_PATH', () => {
  it('only files inside are allowed, after resolving links', async () => {
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
      // Does not exist, but would be inside.
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
      expect(await files('actions').isAllowed(path), path).toBe(expected);
    }
    expect((await files('actions').read('../actions/in.wasm')).toString()).toBe('ok of actions/deep');
    expect(await errorOf(files('actions').read('../actions/nothing.wasm'))).toBe(MISSING);
  });

  it('is resolved if it is a link itself', async () => {
    await symlink('actions', join(folder, 'linked'));
    expect(await files('linked').isAllowed('../actions/a.wasm')).toBe(true);
    expect(await files('linked').isAllowed('../linked/a.wasm')).toBe(true);
  });

  it('a link that has changed since the check is not followed outside', async () => {
    const link = join(folder, 'actions/changed.wasm');
    await symlink('a.wasm', link);
    expect(await files('actions').isAllowed('../actions/changed.wasm')).toBe(true);
    await rm(link);
    await symlink('../config/a.wasm', link);
    expect(await errorOf(files('actions').read('../actions/changed.wasm'))).toBe('is not inside SERVICE_ACTIONS_PATH');
  });

  it('a folder that has become a link since the path was resolved does not lead outside', async () => {
    const [root, path] = [join(folder, 'actions'), join(folder, 'actions/deep/a.wasm')];
    const read = (within: string | undefined) => readContainedFile(path, within, MIB);
    expect((await read(root)).toString()).toBe('ok of actions/deep');
    await rename(join(folder, 'actions/deep'), join(folder, 'actions/other'));
    await symlink('other', join(folder, 'actions/deep'));
    expect((await read(root)).toString()).toBe('ok of actions/deep');
    await rm(join(folder, 'actions/deep'));
    await symlink('../config', join(folder, 'actions/deep'));
    await expect(read(root)).rejects.toMatchObject({ problem: 'outside' });
    expect((await read(undefined)).toString()).toBe('ok of config');
  });
});

import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { checkMachine, checkNode, type Machine } from './machine.mjs';

const DEBIAN: Machine = {
  platform: 'linux',
  arch: 'x64',
  node: '20.20.2',
  isMusl: () => false,
  npmUserAgent: 'npm/10.8.2 node/v20.20.2 linux x64 workspaces/false',
  freeBytes: () => 10e9,
};

describe('nothing is installed', () => {
  it.each(['16.20.2', '18.20.8', '19.9.0'])('on Node.js %s', (version) => {
    expect(() => checkNode(version)).toThrow(
      `needs Node.js 20 or later, this is v${version}: install Node.js 24 (https://nodejs.org), or use the container image`,
    );
  });

  it.each<[string, Partial<Machine>, string]>([
    ['Windows', { platform: 'win32' }, 'does not run on Windows: use WSL 2 (wsl --install), or the container image'],
    [
      'musl',
      { isMusl: () => true },
      'needs the GNU C library, and this system has musl (Alpine Linux): use the container',
    ],
    [
      'a platform without a package of Node.js',
      { arch: 'riscv64' },
      'needs Node.js 26, which npm does not have for linux-riscv64; this is v20.20.2: install Node.js 26 yourself',
    ],
    [
      'an old npm',
      { npmUserAgent: 'npm/9.9.4 node/v20.20.2 linux x64' },
      'needs npm 10 or later, this is 9.9.4: run npm install --global npm@11',
    ],
    ['a full disk', { freeBytes: () => 12e6 }, /^needs 650 MB of disk space, and \S+ has 12 MB left: make room/.source],
  ])('on %s', (_what, difference, message) => {
    expect(() => checkMachine('serve', { ...DEBIAN, ...difference })).toThrow(
      message.startsWith('^') ? new RegExp(message) : message,
    );
  });
});

describe('packages are installed', () => {
  it.each(['20.0.0', '22.23.5', '26.10.0'])('on Node.js %s', (version) => {
    expect(() => checkNode(version)).not.toThrow();
  });

  it.each<[string, Partial<Machine>]>([
    ['Debian', {}],
    ['macOS with Apple silicon', { platform: 'darwin', arch: 'arm64', isMusl: () => true }],
    ['another platform with Node.js 26', { platform: 'darwin', arch: 'x64', node: '26.0.0' }],
    ['an unknown package manager', { npmUserAgent: undefined }],
  ])('on %s', (_what, difference) => {
    expect(() => checkMachine('all', { ...DEBIAN, ...difference })).not.toThrow();
  });

  it('on this machine, without a message if they are there', async () => {
    const setup = new URL('../setup.mjs', import.meta.url).pathname;
    expect(await promisify(execFile)(process.execPath, [setup, 'serve'])).toEqual({ stdout: '', stderr: '' });
  });
});

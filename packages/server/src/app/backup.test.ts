import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, statfs, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { packTar, type TarEntry } from 'modern-tar';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { recordsFile } from '../../testing/records.ts';
import { VERSION } from '../telemetry/version.ts';
import { restoreBackup, verifyBackup } from './backup.ts';

const REGISTRY = '{"version":1,"namespaces":[{"name":"default"}],"journal":3}\n';
const KEY = `${'a1'.repeat(32)}\n`;

let base: string;
let target: string;
let counter = 0;
beforeAll(async () => {
  base = await mkdtemp(join(tmpdir(), 'sluice-restore-'));
});
beforeEach(() => {
  target = join(base, `target-${counter++}`);
});
afterAll(() => rm(base, { recursive: true }));

interface Listed {
  readonly name: string;
  readonly size?: number;
  readonly sha256?: string;
}

function listed(name: string, text: string): Required<Listed> {
  return { name, size: Buffer.byteLength(text), sha256: createHash('sha256').update(text).digest('hex') };
}

function file(name: string, text: string, header: Partial<TarEntry['header']> = {}): TarEntry {
  return { header: { name, size: Buffer.byteLength(text), ...header }, body: text };
}

function manifest(files: readonly Listed[], others: object = {}): TarEntry {
  const content = { format: 1, version: VERSION, created: '2026-11-01T00:00:00.000Z', files, ...others };
  return file('manifest.json', JSON.stringify(content));
}

async function archive(...entries: readonly TarEntry[]): Promise<Buffer> {
  return gzipSync(await packTar([...entries]));
}

const GOOD = [manifest([listed('registry.json', REGISTRY)]), file('registry.json', REGISTRY)] as const;

async function store(bytes: Uint8Array): Promise<string> {
  const path = join(base, `backup-${counter++}.tar.gz`);
  await writeFile(path, bytes);
  return path;
}

const warnings: string[] = [];
const log = { warn: (message: string) => void warnings.push(message), error: () => undefined };

/** Restores an archive; the message of the error, or the names of the files that it wrote. */
async function restored(bytes: Uint8Array): Promise<string | string[]> {
  try {
    await restoreBackup(await store(bytes), target, log);
  } catch (error) {
    return String(error);
  }
  return readdir(target);
}

describe('a backup of other origin', () => {
  const registry = listed('registry.json', REGISTRY);
  const cases: readonly [string, string, () => Promise<Uint8Array>][] = [
    [
      'a path to a folder above',
      'contains a path, "../registry.json"',
      () => archive(manifest([registry]), file('../registry.json', REGISTRY)),
    ],
    ['a path that ends above', 'contains a path, ".."', () => archive(manifest([registry]), file('..', REGISTRY))],
    [
      'an absolute path',
      'contains a path, "/etc/passwd"',
      () => archive(manifest([registry]), file('/etc/passwd', REGISTRY)),
    ],
    [
      'a path of another system',
      'contains a path',
      () => archive(manifest([registry]), file('..\\registry.json', REGISTRY)),
    ],
    [
      'a file in a folder',
      'contains a path, "a/registry.json"',
      () => archive(manifest([registry]), file('a/registry.json', REGISTRY)),
    ],
    [
      'a symbolic link',
      'contains the link "registry.json"',
      () =>
        archive(manifest([registry]), {
          header: { name: 'registry.json', size: 0, type: 'symlink', linkname: '/etc/passwd' },
        }),
    ],
    [
      'a hard link',
      'contains the link "registry.json"',
      () =>
        archive(manifest([registry]), {
          header: { name: 'registry.json', size: 0, type: 'link', linkname: 'manifest.json' },
        }),
    ],
    [
      'a link before the manifest',
      'contains the link "manifest.json"',
      () => archive({ header: { name: 'manifest.json', size: 0, type: 'symlink', linkname: 'x' } }, ...GOOD),
    ],
    [
      'a folder',
      'contains the directory "registry.json/"',
      () => archive(manifest([registry]), { header: { name: 'registry.json/', size: 0, type: 'directory' } }),
    ],
    [
      'a device',
      'contains the character device "registry.json"',
      () => archive(manifest([registry]), { header: { name: 'registry.json', size: 0, type: 'character-device' } }),
    ],
    ['a member twice', 'contains "registry.json" twice', () => archive(...GOOD, file('registry.json', REGISTRY))],
    ['a second manifest', 'contains "manifest.json", which is not in its manifest', () => archive(...GOOD, GOOD[0])],
    [
      'a member that is not in the manifest',
      'contains "records.snapshot", which is not in its manifest',
      () => archive(...GOOD, file('records.snapshot', '{}')),
    ],
    [
      'a file twice in the manifest',
      'lists "registry.json" twice',
      () => archive(manifest([registry, registry]), file('registry.json', REGISTRY)),
    ],
    [
      'an unknown file in the manifest',
      'has an invalid manifest.json: files.0.name',
      () => archive(manifest([listed('registry.lock', '{}')]), file('registry.lock', '{}')),
    ],
    [
      'a path in the manifest',
      'has an invalid manifest.json: files.0.name',
      () => archive(manifest([listed('../registry.json', '')])),
    ],
    [
      'a member larger than in the manifest',
      'contains registry.json with 60 bytes: expected 1',
      () => archive(manifest([{ ...registry, size: 1 }]), file('registry.json', REGISTRY)),
    ],
    [
      'a member smaller than in the manifest',
      'contains registry.json with 60 bytes: expected 61',
      () => archive(manifest([{ ...registry, size: 61 }]), file('registry.json', REGISTRY)),
    ],
    [
      'a size beyond any file',
      'has an invalid manifest.json: files.0.size',
      () => archive(manifest([{ ...registry, size: 2 ** 31 }]), file('registry.json', REGISTRY)),
    ],
    [
      'other content than in the manifest',
      'contains a damaged registry.json',
      () => archive(manifest([registry]), file('registry.json', REGISTRY.replace('default', 'defaulT'))),
    ],
    ['a missing member', 'lacks registry.json', () => archive(manifest([registry]))],
    ['no registry', 'lacks registry.json', () => archive(manifest([]))],
    [
      'no manifest',
      'begins with "registry.json" instead of manifest.json',
      () => archive(file('registry.json', REGISTRY)),
    ],
    ['nothing', 'is empty', () => archive()],
    ['a huge manifest', 'has a manifest.json of 70000 bytes', () => archive(file('manifest.json', ' '.repeat(70_000)))],
    ['an invalid manifest', 'has a manifest.json that is not valid JSON', () => archive(file('manifest.json', '{'))],
    [
      'a later format',
      'has format 2, but this release reads format 1',
      () => archive(manifest([], { format: 2, files: 'other' })),
    ],
    [
      'a later release',
      'was made by version 99.0.0',
      () => archive(manifest([registry], { version: '99.0.0' }), file('registry.json', REGISTRY)),
    ],
    [
      'a registry of a later version',
      'cannot be restored: registry.json has version 2',
      () => {
        const later = REGISTRY.replace('"version":1', '"version":2');
        return archive(manifest([listed('registry.json', later)]), file('registry.json', later));
      },
    ],
    [
      'a registry that is none',
      'contains a registry.json that is not a JSON object',
      () => archive(manifest([listed('registry.json', '[]')]), file('registry.json', '[]')),
    ],
    [
      'a session key that is none',
      'contains a session.key that does not contain a key',
      () => archive(manifest([registry, listed('session.key', 'x')]), GOOD[1], file('session.key', 'x')),
    ],
    [
      'records that are none',
      'contains a records.snapshot that is corrupt',
      () => archive(manifest([registry, listed('records.snapshot', '[]')]), GOOD[1], file('records.snapshot', '[]')),
    ],
    [
      'sessions that are none',
      'contains a records.snapshot that cannot be used: "a"',
      () => {
        const records = recordsFile([['sessions', 'a', '{}']]);
        return archive(
          manifest([registry, listed('records.snapshot', records)]),
          GOOD[1],
          file('records.snapshot', records),
        );
      },
    ],
    ['text', 'is damaged or incomplete', async () => Buffer.from('not an archive')],
    [
      'zeros behind its end that expand',
      'is longer than its manifest says',
      async () => {
        return gzipSync(Buffer.concat([gunzipSync(await archive(...GOOD)), Buffer.alloc(16 * 1024 * 1024)]));
      },
    ],
    [
      'bytes behind its end',
      'is damaged or incomplete',
      async () => Buffer.concat([await archive(...GOOD), Buffer.from('rest')]),
    ],
  ];
  it.each(cases)('is rejected with %s before anything is written', async (_name, message, bytes) => {
    expect(await restored(await bytes())).toContain(message);
    await expect(readdir(target)).rejects.toThrow('ENOENT');
  });

  it('is rejected wherever it is cut off or changed', async () => {
    const whole = await archive(...GOOD);
    for (let length = 0; length < whole.length; length += 7) {
      expect(await restored(whole.subarray(0, length)), `${length} bytes`).toMatch(/^BackupError: /);
    }
    for (let at = 10; at < whole.length; at += 5) {
      const changed = Buffer.from(whole);
      changed[at] = (changed[at] ?? 0) ^ 0x10;
      const result = await restored(changed);
      // Bits that gzip ignores change nothing.
      if (Array.isArray(result)) {
        expect(await readFile(join(target, 'registry.json'), 'utf8')).toBe(REGISTRY);
        await rm(target, { recursive: true });
      } else expect(result).toMatch(/^BackupError: /);
    }
    await expect(readdir(target)).rejects.toThrow('ENOENT');
  });
});

describe('restoring', () => {
  it('writes the files for their owner only, and releases the folder', async () => {
    const key = listed('session.key', KEY);
    const bytes = await archive(manifest([listed('registry.json', REGISTRY), key]), GOOD[1], file('session.key', KEY));
    expect(await restored(bytes)).toEqual(['registry.json', 'session.key']);
    expect(await readFile(join(target, 'registry.json'), 'utf8')).toBe(REGISTRY);
    const modes = await Promise.all(
      ['', 'session.key'].map(async (name) => (await stat(join(target, name))).mode & 0o777),
    );
    expect(modes).toEqual([0o700, 0o600]);
  });

  it('reads archives of other programs, whose entries have owners and times', async () => {
    const header = { uid: 1000, gid: 1000, uname: 'x', gname: 'y', mode: 0o644, mtime: new Date(0) };
    const bytes = await archive(
      manifest([listed('registry.json', REGISTRY)], { version: '0.0.1' }),
      file('registry.json', REGISTRY, header),
    );
    expect(await restored(bytes)).toEqual(['registry.json']);
    expect((await verifyBackup(await store(bytes))).version).toBe('0.0.1');
  });

  it('requires an empty folder, except for lost+found', async () => {
    await mkdir(join(target, 'lost+found'), { recursive: true });
    expect(await restored(await archive(...GOOD))).toEqual(['lost+found', 'registry.json']);
    expect(await restored(await archive(...GOOD))).toContain(`${target} contains registry.json`);
  });

  it('requires space for what the manifest lists', async () => {
    const huge = Array.from(['registry.json', 'records.snapshot', 'session.key'], (name) => ({
      ...listed(name, ''),
      size: 2 ** 31 - 1,
    }));
    const { bavail, bsize } = await statfs(base);
    const message = await restored(await archive(manifest(huge)));
    expect(message).toContain(bavail * bsize < 3 * (2 ** 31 - 1) ? 'bytes of free space' : 'lacks registry.json');
  });
});

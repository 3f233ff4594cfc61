import { createHash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { createTarPacker } from 'modern-tar';
import { z } from 'zod';

/** Version of the format of backups; a release reads its own and older ones. */
export const BACKUP_FORMAT = 1;

/** First member of a backup. */
export const MANIFEST_NAME = 'manifest.json';

/** Files that a backup can contain. The API never sends the session key. */
export const BACKUP_FILES = ['registry.json', 'records.snapshot', 'session.key'] as const;

/** Name of a file in a backup. */
export type BackupFileName = (typeof BACKUP_FILES)[number];

/** Files of 2 GiB and more cannot be read by the service. */
const MAX_FILE_BYTES = 2 ** 31 - 1;

/** Content of the manifest: what the archive must contain. */
export const backupManifest = z.object({
  format: z.literal(BACKUP_FORMAT),
  /** Version of the service that made the backup. */
  version: z.string().regex(/^\d{1,6}\.\d{1,6}\.\d{1,6}(?:-[\w.]+)?$/, 'expected a version such as 1.2.3'),
  /** Time of the content. */
  created: z.iso.datetime(),
  files: z.array(
    z.object({
      name: z.enum(BACKUP_FILES),
      /** Bytes. */
      size: z.int().min(0).max(MAX_FILE_BYTES),
      sha256: z.string().regex(/^[0-9a-f]{64}$/, 'expected 64 hexadecimal digits'),
    }),
  ),
});

/** Content of the manifest. */
export type BackupManifest = z.output<typeof backupManifest>;

/** A file to back up. `slices` returns the same text each time, in pieces for one turn of the event loop each. */
export interface BackupSource {
  readonly name: BackupFileName;
  readonly slices: () => Iterable<string>;
}

/**
 * Returns a backup as a gzip-compressed tar archive: the manifest, then the files. The texts are produced twice, first for
 * their sizes and checksums, so that an archive of any size needs little memory. Canceling the stream ends the work.
 */
export async function createBackup(
  sources: readonly BackupSource[],
  { version, now }: { readonly version: string; readonly now: Date },
): Promise<ReadableStream<Uint8Array>> {
  const files: BackupManifest['files'] = [];
  for (const source of sources) files.push(await measure(source));
  const manifest: BackupManifest = { format: BACKUP_FORMAT, version, created: now.toISOString(), files };
  return createArchive(manifest, async (add) => {
    for (const [index, { slices }] of sources.entries()) {
      const file = files[index];
      if (file) await add(file.name, file.size, inTurns(slices()));
    }
  });
}

/** Adds a file of `size` bytes to an archive. */
type AddFile = (name: string, size: number, chunks: AsyncIterable<Uint8Array>) => Promise<void>;

/** Returns an archive with this manifest and the files that `write` adds, one after the other. Its reader gets all errors. */
export function createArchive(
  manifest: BackupManifest,
  write: (add: AddFile) => Promise<void>,
): ReadableStream<Uint8Array> {
  const { readable, controller } = createTarPacker();
  const mtime = new Date(manifest.created);
  const add: AddFile = async (name, size, chunks) => {
    const body = controller.add({ name, size, mtime, mode: 0o600 }).getWriter();
    for await (const chunk of chunks) await body.write(chunk);
    await body.close();
  };
  const writeAll = async (): Promise<void> => {
    const text = Buffer.from(`${JSON.stringify(manifest, null, 2)}\n`);
    await add(MANIFEST_NAME, text.length, inTurns([text]));
    await write(add);
    controller.finalize();
  };
  writeAll().catch((error) => controller.error(error));
  return readable.pipeThrough(new CompressionStream('gzip'));
}

async function measure({ name, slices }: BackupSource): Promise<BackupManifest['files'][number]> {
  const hash = createHash('sha256');
  let size = 0;
  for await (const bytes of inTurns(slices())) {
    hash.update(bytes);
    size += bytes.length;
  }
  return { name, size, sha256: hash.digest('hex') };
}

/** Yields the slices as bytes, each in a turn of the event loop. */
async function* inTurns(slices: Iterable<string | Buffer>): AsyncGenerator<Buffer> {
  for (const slice of slices) {
    yield Buffer.from(slice);
    await nextTurn();
  }
}

import { createHash } from 'node:crypto';
import { isJsonObject, tryParseJson } from '@sluice/protocol/json/parse';
import { quoteText } from '@sluice/protocol/text';
import { createTarDecoder, type ParsedTarEntry } from 'modern-tar';
import { BACKUP_FORMAT, type BackupManifest, backupManifest, MANIFEST_NAME } from './backup-archive.ts';
import { errorReason } from './files.ts';

/** A backup is damaged, or not one. The message is a predicate of the file. */
export class BackupError extends Error {
  override readonly name = 'BackupError';
}

/** A file of the manifest. */
export type BackupFile = BackupManifest['files'][number];

/** Receives the content of a backup. */
export interface BackupHandler {
  readonly onManifest?: (manifest: BackupManifest) => void | Promise<void>;
  /** Called for each file, in the order of the archive; must read the chunks to their end. */
  readonly onFile?: (file: BackupFile, chunks: AsyncIterable<Uint8Array>) => Promise<void>;
}

const MAX_MANIFEST_BYTES = 64 * 1024;
/** Headers and padding of the archive, with room for other programs that write tar files. */
const ARCHIVE_OVERHEAD = 1024 * 1024;

/**
 * Reads a backup to its end and checks it against its manifest: nothing else is in it, each file is complete and unchanged.
 * A file is checked after its last chunk, so only the end of the whole says that what was received is right. `version`:
 * that of this release. Throws {@link BackupError}, and what the handler and the source throw.
 */
export async function readBackup(
  source: ReadableStream<Uint8Array<ArrayBuffer>>,
  version: string,
  { onManifest, onFile }: BackupHandler = {},
): Promise<BackupManifest> {
  // Until the manifest is known, the decoder reads ahead at most a few MiB.
  const limit = { bytes: Number.POSITIVE_INFINITY };
  const entries = source
    .pipeThrough(new DecompressionStream('gzip'))
    .pipeThrough(limited(limit))
    .pipeThrough(createTarDecoder({ strict: true }));
  let manifest: BackupManifest | undefined;
  const missing = new Map<string, BackupFile>();
  const seen = new Set<string>();
  for await (const entry of damageReported(entries)) {
    const { name } = entry.header;
    checkHeader(entry);
    if (!manifest) {
      manifest = await readManifest(entry, version);
      limit.bytes = manifest.files.reduce((sum, { size }) => sum + size, ARCHIVE_OVERHEAD);
      for (const file of manifest.files) {
        if (missing.has(file.name)) throw new BackupError(`lists ${quoteText(file.name, 100)} twice`);
        missing.set(file.name, file);
      }
      await onManifest?.(manifest);
      continue;
    }
    if (seen.has(name)) throw new BackupError(`contains ${quoteText(name, 100)} twice`);
    const file = missing.get(name);
    if (!file) throw new BackupError(`contains ${quoteText(name, 100)}, which is not in its manifest`);
    if (entry.header.size !== file.size) {
      throw new BackupError(`contains ${name} with ${entry.header.size} bytes: expected ${file.size}`);
    }
    const chunks = verified(file, entry.body);
    if (onFile) await onFile(file, chunks);
    for await (const _rest of chunks);
    missing.delete(name);
    seen.add(name);
  }
  if (!manifest) throw new BackupError('is empty: expected a backup of Sluice');
  const [lacking] = missing.keys();
  if (lacking !== undefined) throw new BackupError(`lacks ${lacking}`);
  return manifest;
}

/** Only plain files in the top folder: nothing else is ever in a backup, and could be written elsewhere. */
function checkHeader({ header: { name, type, linkname } }: ParsedTarEntry): void {
  const quoted = quoteText(name, 100);
  if (type !== 'file' || linkname) {
    const kind = type === 'symlink' || type === 'link' || linkname ? 'link' : (type ?? 'member');
    throw new BackupError(`contains the ${kind.replaceAll('-', ' ')} ${quoted}: expected only files`);
  }
  if (name === '' || /[/\\]|^\.\.?$/.test(name)) {
    throw new BackupError(`contains a path, ${quoted}: expected only file names`);
  }
}

async function readManifest({ header, body }: ParsedTarEntry, version: string): Promise<BackupManifest> {
  if (header.name !== MANIFEST_NAME) {
    throw new BackupError(
      `begins with ${quoteText(header.name, 100)} instead of ${MANIFEST_NAME}: expected a backup of Sluice`,
    );
  }
  if (header.size > MAX_MANIFEST_BYTES) throw new BackupError(`has a ${MANIFEST_NAME} of ${header.size} bytes`);
  const content = tryParseJson(Buffer.concat(await Array.fromAsync(damageReported(body))).toString());
  if (content === undefined) throw new BackupError(`has a ${MANIFEST_NAME} that is not valid JSON`);
  const format = isJsonObject(content) ? content.format : undefined;
  if (typeof format === 'number' && format > BACKUP_FORMAT) {
    throw new BackupError(
      `has format ${format}, but this release reads format ${BACKUP_FORMAT}: restore it with a later release`,
    );
  }
  const parsed = backupManifest.safeParse(content);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw new BackupError(`has an invalid ${MANIFEST_NAME}: ${issue?.path.join('.')}: ${issue?.message}`);
  }
  if (isLater(parsed.data.version, version)) {
    throw new BackupError(
      `was made by version ${parsed.data.version}, and this is version ${version}: restore it with that version or a later one`,
    );
  }
  return parsed.data;
}

/** Compares versions by their numbers. */
function isLater(version: string, than: string): boolean {
  const [a, b] = [version, than].map((text) => text.split('-', 1)[0]?.split('.').map(Number) ?? []);
  const at = (a ?? []).findIndex((number, index) => number !== (b?.[index] ?? 0));
  return at >= 0 && (a?.[at] ?? 0) > (b?.[at] ?? 0);
}

async function* verified(file: BackupFile, body: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  const hash = createHash('sha256');
  for await (const chunk of damageReported(body)) {
    hash.update(chunk);
    yield chunk;
  }
  if (hash.digest('hex') !== file.sha256) {
    throw new BackupError(`contains a damaged ${file.name}: its checksum is not that of the manifest`);
  }
}

/** Reports errors of decompression and of the archive as damage. System errors pass. */
async function* damageReported<T>(stream: ReadableStream<T>): AsyncGenerator<T> {
  try {
    yield* stream;
  } catch (error) {
    if (error instanceof BackupError || (error instanceof Error && 'syscall' in error)) throw error;
    throw new BackupError(`is damaged or incomplete: ${errorReason(error)}`, { cause: error });
  }
}

/** Ends a stream with an error that is longer than its limit: a few bytes can expand to any size. */
function limited(limit: { readonly bytes: number }): TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>> {
  let passed = 0;
  return new TransformStream({
    transform(chunk, controller) {
      passed += chunk.length;
      if (passed > limit.bytes) throw new BackupError('is longer than its manifest says');
      controller.enqueue(chunk);
    },
  });
}

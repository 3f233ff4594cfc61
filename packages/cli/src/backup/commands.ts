import { randomUUID } from 'node:crypto';
import { access, open, rename, rm } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { unwrapStream } from '@sluice/contract/client';
import { Command } from 'commander';
import { GZIP } from '../connection/connect.ts';
import type { Context } from '../context.ts';
import { Failure } from '../failure.ts';
import { errorReason } from '../files/system-error.ts';
import { sanitizeLine } from '../terminal/text.ts';

interface BackupOptions {
  readonly dataFolder?: string;
  readonly force?: true;
}

/** `sluice backup`: downloads a backup of a running service and verifies it before it gets its name. */
export function backupCommand(context: Context): Command {
  return new Command('backup')
    .description('Back up a running service: registry, evaluator revisions and sessions, without secrets')
    .argument('<file>', 'File to create, such as sluice.tar.gz')
    .option('--data-folder <folder>', "The service's own data folder: adds its session key to the backup")
    .option('--force', 'Replace an existing file')
    .addHelpText(
      'after',
      `
The backup is of one moment, whatever is written meanwhile. Without the session key, clients of legacy MCP sessions
initialize again after a restore. A file with the key is as confidential as the key.

Examples:
  sluice backup sluice.tar.gz
  sluice backup with-key.tar.gz --data-folder /data/registry`,
    )
    .action(async (file: string, { dataFolder, force }: BackupOptions) => {
      const { terminal } = context;
      const path = resolve(terminal.cwd, file);
      if (!force && (await exists(path))) throw new Failure(`${file} exists: use --force to replace it`);
      const client = await context.connect();
      const headers = { accept: GZIP };
      const download = join(dirname(path), `.sluice-${randomUUID()}`);
      const withKey = `${download}-key`;
      try {
        await write(download, await unwrapStream(client.GET('/api/v1/backup', { parseAs: 'stream', headers })), file);
        const backup = await import('@sluice/server/backup');
        if (dataFolder !== undefined) {
          const folder = resolve(terminal.cwd, dataFolder);
          await explained(download, file, async () =>
            write(withKey, await backup.addSessionKey(download, folder), file),
          );
        }
        const written = dataFolder === undefined ? download : withKey;
        const manifest = await explained(written, file, () => backup.verifyBackup(written));
        await rename(written, path);
        if (dataFolder !== undefined) {
          terminal.stderr.write(`warning: ${sanitizeLine(file)} contains the session key: keep it confidential\n`);
        }
        const files = manifest.files.map(({ name, size }) => ({ name, size }));
        const names = files.map(({ name }) => name).join(', ');
        context
          .output()
          .done(
            { file: path, version: manifest.version, created: manifest.created, files },
            `backed up ${names} to ${file}`,
          );
      } finally {
        await rm(download, { force: true });
        await rm(withKey, { force: true });
      }
    });
}

/** `sluice restore`: restores a backup into the empty data folder of a stopped service. */
export function restoreCommand(context: Context): Command {
  return new Command('restore')
    .description('Restore a backup into an empty data folder, before the service is started')
    .argument('<file>', 'Backup made by this version of Sluice or an earlier one')
    .option(
      '--data-folder <folder>',
      'Folder to restore into (default: SERVICE_PERSIST_PATH, or that of "sluice serve")',
    )
    .addHelpText(
      'after',
      `
Nothing is written unless all of the backup is intact. Run it as the user of the service.

Example:
  sluice restore sluice-2026-11-01.tar.gz`,
    )
    .action(async (file: string, { dataFolder }: Pick<BackupOptions, 'dataFolder'>) => {
      const { terminal } = context;
      const path = resolve(terminal.cwd, file);
      const backup = await import('@sluice/server/backup');
      const folder = resolve(terminal.cwd, dataFolder ?? backup.dataFolder(terminal.env));
      const warn = (message: string) => terminal.stderr.write(`warning: ${sanitizeLine(message)}\n`);
      const { version, created, files, blocked } = await explained(path, file, () =>
        backup.restoreBackup(path, folder, { warn, error: warn }),
      );
      const names = files.map(({ name }) => name);
      if (blocked.length > 0) {
        warn(`blocked as of ${created}: ${blocked.join(', ')}; later blocks, and the ends of these, are undone`);
      }
      const payload = { folder, version, created, files: names, ...(blocked.length > 0 && { blocked }) };
      context.output().done(payload, `restored ${names.join(', ')} of ${created} to ${folder}`);
    });
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

/** Writes a new file that only its owner can read. Throws {@link Failure} naming `file` when it cannot be written. */
async function write(path: string, content: ReadableStream<Uint8Array>, file: string): Promise<void> {
  const handle = await open(path, 'wx', 0o600).catch((error: unknown) => {
    throw new Failure(`${file}: ${errorReason(error) ?? 'cannot be written'}`, { cause: error });
  });
  try {
    for await (const chunk of content) await handle.writeFile(chunk);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Explains the errors of a backup at `path`, which is named `file`. */
async function explained<T>(path: string, file: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const { BackupError, StoreError } = await import('@sluice/server/backup');
    if (error instanceof BackupError) throw new Failure(`${file} ${error.message}`, { cause: error });
    if (error instanceof StoreError) throw new Failure(error.message, { cause: error });
    const reason = errorReason(error);
    if (reason === undefined) throw error;
    const at = error instanceof Error && 'path' in error && error.path !== path ? String(error.path) : file;
    throw new Failure(`${at}: ${reason}`, { cause: error });
  }
}

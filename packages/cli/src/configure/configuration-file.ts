import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { mkdir, open, readFile, readlink, realpath, rename, rm, stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { Failure } from '../failure.ts';

/** A configuration file as it was read. */
export interface ConfigurationFile {
  /** The path that was asked for. */
  readonly path: string;
  /** What it holds, without a byte order mark; empty when there is none yet. */
  readonly text: string;
  readonly exists: boolean;
  /**
   * Puts another text in its place, in one step and with the mode that it has (0600 when it is new, since such files
   * carry tokens). Folders are made, a symbolic link stays one. Rejects with {@link Failure}, and leaves the file alone,
   * when somebody else has changed it since it was read.
   */
  readonly replace: (text: string) => Promise<void>;
}

const BYTE_ORDER_MARK = '\uFEFF';
const LINKS_AT_MOST = 40;

/** Reads a configuration file. Rejects with {@link Failure} when it cannot be read as text. */
export async function readConfigurationFile(path: string): Promise<ConfigurationFile> {
  try {
    const target = await targetOf(path);
    const bytes = await read(target);
    const content = bytes === undefined ? '' : decoded(path, bytes);
    const mark = content.startsWith(BYTE_ORDER_MARK) ? BYTE_ORDER_MARK : '';
    return {
      path,
      text: content.slice(mark.length),
      exists: bytes !== undefined,
      replace: async (text) => {
        try {
          await replace(path, target, bytes, mark + text);
        } catch (error) {
          throw unusable(path, 'written', error);
        }
      },
    };
  } catch (error) {
    throw unusable(path, 'read', error);
  }
}

async function replace(path: string, target: string, before: Buffer | undefined, text: string): Promise<void> {
  await mkdir(dirname(target), { recursive: true });
  const old = before === undefined ? undefined : await stat(target);
  const draft = join(dirname(target), `.sluice-${randomUUID()}`);
  try {
    // Nobody else may read it, not even for a moment.
    const handle = await open(draft, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o600);
    try {
      await handle.writeFile(text);
      if (old !== undefined) {
        // Only root can give a file away, and only root needs to.
        await handle.chown(old.uid, old.gid).catch(() => undefined);
        await handle.chmod(old.mode & 0o777);
      }
      await handle.sync();
    } finally {
      await handle.close();
    }
    const now = await read(target);
    if (now === undefined ? before !== undefined : before === undefined || !now.equals(before)) {
      throw new Failure(`${path} has been changed by another program meanwhile; run the command again`);
    }
    await rename(draft, target);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
}

/** The file itself, where the path leads over symbolic links; it need not exist. */
async function targetOf(path: string): Promise<string> {
  let target = path;
  for (let links = 0; links < LINKS_AT_MOST; links++) {
    try {
      return await realpath(target);
    } catch (error) {
      if (codeOf(error) !== 'ENOENT') throw error;
    }
    try {
      target = resolve(dirname(target), await readlink(target));
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return target;
      throw error;
    }
  }
  throw new Failure(`${path}: symbolic links lead in a circle`);
}

async function read(path: string): Promise<Buffer | undefined> {
  try {
    return await readFile(path);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

function decoded(path: string, bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (error) {
    throw new Failure(`${path} is not UTF-8 text; it was left as it is`, { cause: error });
  }
}

function unusable(path: string, what: 'read' | 'written', error: unknown): unknown {
  const reason = new Map([
    ['EACCES', 'permission denied'],
    ['EPERM', 'permission denied'],
    ['EISDIR', 'it is a folder'],
    ['ENOTDIR', 'a part of the path is no folder'],
    ['EROFS', 'the disk is read-only'],
    ['ENOSPC', 'the disk is full'],
    ['ELOOP', 'symbolic links lead in a circle'],
  ]).get(codeOf(error) ?? '');
  return reason === undefined ? error : new Failure(`${path} cannot be ${what}: ${reason}`, { cause: error });
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

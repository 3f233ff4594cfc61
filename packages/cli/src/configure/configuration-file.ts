import { mkdir, readFile, readlink, realpath, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { Failure } from '../failure.ts';
import { replaceFile } from '../files/replace-file.ts';
import { errorCode, errorReason } from '../files/system-error.ts';

/** A configuration file as it was read. */
export interface ConfigurationFile {
  /** The requested path. */
  readonly path: string;
  /** The file after resolving symbolic links. */
  readonly target: string;
  /** Content without a byte order mark; empty for a new file. */
  readonly text: string;
  readonly exists: boolean;
  /**
   * Replaces the content atomically and keeps the file mode (0600 for a new file, because it may contain tokens).
   * Creates folders; symbolic links stay links. Rejects with {@link Failure} when the file has changed since it was
   * read.
   */
  readonly replace: (text: string) => Promise<void>;
}

const BYTE_ORDER_MARK = '\uFEFF';
const MAX_LINKS = 40;

/** Reads a configuration file. Rejects with {@link Failure} when it is not readable text. */
export async function readConfigurationFile(path: string): Promise<ConfigurationFile> {
  try {
    const target = await resolveTarget(path);
    const bytes = await read(target);
    const content = bytes === undefined ? '' : decode(path, bytes);
    const mark = content.startsWith(BYTE_ORDER_MARK) ? BYTE_ORDER_MARK : '';
    return {
      path,
      target,
      text: content.slice(mark.length),
      exists: bytes !== undefined,
      replace: async (text) => {
        try {
          await replace(path, target, bytes, mark + text);
        } catch (error) {
          throw fileFailure(path, 'written', error);
        }
      },
    };
  } catch (error) {
    throw fileFailure(path, 'read', error);
  }
}

async function replace(path: string, target: string, before: Buffer | undefined, text: string): Promise<void> {
  await mkdir(dirname(target), { recursive: true });
  const old = before === undefined ? undefined : await stat(target);
  const unchanged = async (): Promise<void> => {
    const now = await read(target);
    if (now === undefined ? before !== undefined : before === undefined || !now.equals(before)) {
      throw new Failure(`${path} was changed by another program; run the command again`);
    }
  };
  await replaceFile(target, text, { like: old, beforeRename: unchanged });
}

/** Resolves symbolic links, also of folders; the file need not exist. */
async function resolveTarget(path: string, links = 0): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error;
  }
  if (links === MAX_LINKS) throw new Failure(`${path}: too many symbolic links`);
  const folder = await resolveTarget(dirname(path), links + 1);
  const here = join(folder, basename(path));
  const link = await readlink(here).catch((error: unknown) => {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  });
  return link === undefined ? here : resolveTarget(resolve(folder, link), links + 1);
}

async function read(path: string): Promise<Buffer | undefined> {
  try {
    return await readFile(path);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}

function decode(path: string, bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (error) {
    throw new Failure(`${path} is not UTF-8 text; the file was not changed`, { cause: error });
  }
}

function fileFailure(path: string, what: 'read' | 'written', error: unknown): unknown {
  const reason = errorReason(error);
  return reason === undefined ? error : new Failure(`${path} cannot be ${what}: ${reason}`, { cause: error });
}

import { mkdir, readFile, readlink, realpath, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { Failure } from '../failure.ts';
import { replaceFile } from '../files/replace-file.ts';
import { errorCode, errorReason } from '../files/system-error.ts';

/** A configuration file as it was read. */
export interface ConfigurationFile {
  /** The path that was asked for. */
  readonly path: string;
  /** The file itself, where the path leads over symbolic links. */
  readonly target: string;
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
const MAX_LINKS = 40;

/** Reads a configuration file. Rejects with {@link Failure} when it cannot be read as text. */
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
      throw new Failure(`${path} has been changed by another program meanwhile; run the command again`);
    }
  };
  await replaceFile(target, text, { like: old, beforeRename: unchanged });
}

/** The file itself, where the path leads over symbolic links, also of its folders; it need not exist. */
async function resolveTarget(path: string, links = 0): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error;
  }
  if (links === MAX_LINKS) throw new Failure(`${path}: symbolic links lead in a circle`);
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
    throw new Failure(`${path} is not UTF-8 text; it was left as it is`, { cause: error });
  }
}

function fileFailure(path: string, what: 'read' | 'written', error: unknown): unknown {
  const reason = errorReason(error);
  return reason === undefined ? error : new Failure(`${path} cannot be ${what}: ${reason}`, { cause: error });
}

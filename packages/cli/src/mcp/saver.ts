import { mkdir, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { Context } from '../context.ts';
import { Failure } from '../failure.ts';
import { errorCode, errorReason } from '../files/system-error.ts';

/** Writes bytes into a new file and resolves with its path. */
export type Saver = (bytes: Buffer, mimeType: string | undefined) => Promise<string>;

const EXTENSIONS: ReadonlyMap<string, string> = new Map([
  ['image/jpeg', 'jpg'],
  ['image/svg+xml', 'svg'],
  ['audio/mpeg', 'mp3'],
  ['audio/x-wav', 'wav'],
  ['text/plain', 'txt'],
]);
const MAX_FILES = 10_000;

/** The saver that the options ask for. Throws {@link Failure} when the content is printed as it is. */
export function createSaver(folder: string | undefined, { terminal, output }: Context): Saver | undefined {
  if (folder === undefined) return undefined;
  if (output().format === 'json') throw new Failure('--save: not with --output json, which has all content in it');
  return saveToFolder(resolve(terminal.cwd, folder));
}

/** Saves into a folder, which is made: `content-1.png`, `content-2.wav` ... Files that are there already stay. */
function saveToFolder(folder: string): Saver {
  let next = 1;
  return async (bytes, mimeType) => {
    try {
      await mkdir(folder, { recursive: true });
      for (; next <= MAX_FILES; next++) {
        const path = join(folder, `content-${next}.${fileExtension(mimeType)}`);
        if (await writeNewFile(path, bytes)) {
          next++;
          return path;
        }
      }
    } catch (error) {
      throw new Failure(`--save: ${folder} cannot be written to: ${errorReason(error) ?? error}`, { cause: error });
    }
    throw new Failure(`--save: ${folder} is full of content already; name another folder`);
  };
}

async function writeNewFile(path: string, bytes: Buffer): Promise<boolean> {
  try {
    await writeFile(path, bytes, { flag: 'wx' });
    return true;
  } catch (error) {
    if (errorCode(error) === 'EEXIST') return false;
    throw error;
  }
}

/** Never more than letters and digits: the type is the server's word. */
function fileExtension(mimeType = ''): string {
  const type = mimeType.split(';', 1)[0]?.trim().toLowerCase() ?? '';
  return EXTENSIONS.get(type) ?? /^[a-z]+\/([a-z0-9]{1,8})$/.exec(type)?.[1] ?? 'bin';
}

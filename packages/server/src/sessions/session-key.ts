import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { errorCode, type Files } from '../registry/store/files.ts';
import { replaceFile } from '../registry/store/replace.ts';
import { StoreError } from '../registry/store/store.ts';

const KEY_BYTES = 32;
/** Beside `registry.json`, mode 0600 (mcp 3). */
const FILE = 'session.key';

/**
 * The key that sessions are sealed with: the one in the folder, or a new one that is kept there, so that the next
 * start opens the sessions of this one. Throws {@link StoreError} when the file holds something else.
 */
export async function sessionKeyIn(folder: string, files: Files): Promise<Buffer> {
  const path = join(folder, FILE);
  try {
    const key = Buffer.from((await readFile(path, 'utf8')).trim(), 'hex');
    if (key.length === KEY_BYTES) return key;
    throw new StoreError(`${path} does not hold a key of ${KEY_BYTES} bytes in hex; remove it to have a new one made`);
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error;
  }
  const key = newSessionKey();
  await replaceFile(files, path, [`${key.toString('hex')}\n`]);
  return key;
}

/** A key for sessions that end with the process. */
export function newSessionKey(): Buffer {
  return randomBytes(KEY_BYTES);
}

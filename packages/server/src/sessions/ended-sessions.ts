import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isJsonObject } from '../json/lossless.ts';
import { errorCode, type Files } from '../registry/store/files.ts';
import { replaceFile } from '../registry/store/replace.ts';
import { StoreError } from '../registry/store/store.ts';
import type { EndedSessions } from './sessions.ts';

/** Beside `registry.json` (decisions 1.5). */
const FILE = 'sessions.json';

/** Ended sessions of a process that keeps nothing. */
export function endedInMemory(now: () => number = Date.now): EndedSessions {
  const ended = new Map<string, number>();
  return {
    has: (id) => ended.has(id),
    async add(id, expires) {
      forgetExpired(ended, now());
      ended.set(id, expires);
    },
  };
}

/**
 * Ended sessions kept in the folder until they would have expired: a session that was ended stays so after a restart.
 * Ends that come together share one write. Throws {@link StoreError} when the file is damaged.
 */
export async function endedInFolder(
  folder: string,
  files: Files,
  now: () => number = Date.now,
): Promise<EndedSessions> {
  const path = join(folder, FILE);
  const ended = await read(path);
  let writing: Promise<void> = Promise.resolve();
  let queued: Promise<void> | undefined;
  const write = async (): Promise<void> => {
    queued = undefined;
    forgetExpired(ended, now());
    await replaceFile(files, path, [`${JSON.stringify({ version: 1, ended: Object.fromEntries(ended) }, null, 2)}\n`]);
  };
  return {
    has: (id) => ended.has(id),
    add(id, expires) {
      ended.set(id, expires);
      if (!queued) {
        queued = writing.then(write);
        writing = queued.catch(() => undefined);
      }
      // What could not be kept has not ended: the client is told so, and may try again.
      return queued.catch((error: unknown) => {
        ended.delete(id);
        throw error;
      });
    },
  };
}

async function read(path: string): Promise<Map<string, number>> {
  const ended = new Map<string, number>();
  let content: unknown;
  try {
    content = JSON.parse(await readFile(path, 'utf8'));
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return ended;
    throw new StoreError(`${path} is damaged; remove it to go on without the sessions that were ended`, {
      cause: error,
    });
  }
  const kept = isJsonObject(content) && isJsonObject(content.ended) ? content.ended : {};
  for (const [id, expires] of Object.entries(kept)) if (typeof expires === 'number') ended.set(id, expires);
  return ended;
}

function forgetExpired(ended: Map<string, number>, now: number): void {
  for (const [id, expires] of ended) if (expires <= now) ended.delete(id);
}

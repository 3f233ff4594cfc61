import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { Failure } from '../failure.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { errorReason } from './system-error.ts';

/** The text of a file, or of standard input for `-`. Throws {@link Failure} when it cannot be read. */
export async function readText(path: string, { cwd, stdin }: Terminal): Promise<string> {
  if (path === '-') return stdin.text();
  try {
    return await readFile(resolve(cwd, path), 'utf8');
  } catch (error) {
    throw new Failure(`${path}: ${errorReason(error) ?? 'cannot be read'}`, { cause: error });
  }
}

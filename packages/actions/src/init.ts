import { constants, copyFile, mkdir } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** What a folder begins with, beside what declares the service's interfaces to the compiler. */
const FILES = [
  '../starter/my-action.ts',
  '../starter/ctx.json',
  '../starter/evaluator.yaml',
  '../starter/tsconfig.json',
  '../types/evaluator.d.ts',
];

/** A file of a new folder. */
export interface StarterFile {
  readonly name: string;
  /** False when there was a file of that name, which stays. */
  readonly written: boolean;
}

/** Makes a folder with a small action in it, and what it takes to build and test it. Rejects with the system's error. */
export async function initAction(folder: string): Promise<StarterFile[]> {
  await mkdir(folder, { recursive: true });
  const written: StarterFile[] = [];
  for (const file of FILES) {
    const name = basename(file);
    written.push({ name, written: await copied(new URL(file, import.meta.url), join(folder, name)) });
  }
  return written;
}

async function copied(from: URL, to: string): Promise<boolean> {
  try {
    await copyFile(fileURLToPath(from), to, constants.COPYFILE_EXCL);
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false;
    throw error;
  }
}

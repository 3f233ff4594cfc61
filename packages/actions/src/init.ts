import { mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';

/** What a folder begins with, beside what declares the service's interfaces to the compiler. */
const FILES = [
  '../starter/my-action.ts',
  '../starter/ctx.json',
  '../starter/evaluator.yaml',
  '../starter/tsconfig.json',
  '../types/evaluator.d.ts',
];

/** What stands for the component in the files. */
const COMPONENT = './my-action.wasm';

/** A file of a new folder. */
export interface StarterFile {
  readonly name: string;
  /** False when there was a file of that name, which stays. */
  readonly written: boolean;
}

/**
 * Makes a folder with a small action in it, and what it takes to build and test it; `folder` is an absolute path. Rejects
 * with the system's error.
 */
export async function initAction(folder: string): Promise<StarterFile[]> {
  await made(folder);
  const written: StarterFile[] = [];
  for (const file of FILES) {
    const name = basename(file);
    written.push({ name, written: await copied(new URL(file, import.meta.url), join(folder, name), folder) });
  }
  return written;
}

/** Node.js's own way of making those above it, too, tries for ever where the system makes none (`/proc/x`). */
async function made(folder: string): Promise<void> {
  try {
    await mkdir(folder);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === 'ENOENT' && dirname(folder) !== folder) {
      await made(dirname(folder));
      await mkdir(folder);
    } else if (code !== 'EEXIST' || !(await stat(folder)).isDirectory()) throw error;
  }
}

async function copied(from: URL, to: string, folder: string): Promise<boolean> {
  try {
    await writeFile(to, filledIn(await readFile(from, 'utf8'), folder), { flag: 'wx' });
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false;
    throw error;
  }
}

/** A relative path would begin at the folder of the service, so that the evaluator names the component by all of it. */
function filledIn(text: string, folder: string): string {
  const component = join(folder, 'my-action.wasm');
  const plain = /^\/[\w./+-]+$/.test(component);
  return text.replace(COMPONENT, () => (plain ? component : JSON.stringify(component)));
}

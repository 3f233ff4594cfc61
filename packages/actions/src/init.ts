import { mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';

/** Files of a new action folder. */
const FILES = [
  '../starter/my-action.ts',
  '../starter/ctx.json',
  '../starter/evaluator.yaml',
  '../starter/tsconfig.json',
  '../types/evaluator.d.ts',
];

/** Placeholder for the component's absolute path. */
const COMPONENT = './my-action.wasm';

/** File of a new action folder. */
export interface StarterFile {
  readonly name: string;
  /** False if the file existed and was not changed. */
  readonly written: boolean;
}

/**
 * Creates a folder (absolute path) with a small action and the files to build and test it. Existing files are not
 * changed. Rejects with the error of the file system.
 */
export async function initAction(folder: string): Promise<StarterFile[]> {
  await makeFolder(folder);
  const written: StarterFile[] = [];
  for (const file of FILES) {
    const name = basename(file);
    written.push({ name, written: await copyFile(new URL(file, import.meta.url), join(folder, name), folder) });
  }
  return written;
}

/** Creates a folder and its parents. Node.js's recursive `mkdir` never returns where none can be created (`/proc/x`). */
async function makeFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === 'ENOENT' && dirname(folder) !== folder) {
      await makeFolder(dirname(folder));
      await mkdir(folder);
    } else if (code !== 'EEXIST' || !(await stat(folder)).isDirectory()) throw error;
  }
}

async function copyFile(from: URL, to: string, folder: string): Promise<boolean> {
  try {
    await writeFile(to, fillIn(await readFile(from, 'utf8'), folder), { flag: 'wx' });
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false;
    throw error;
  }
}

/** Inserts the absolute path of the component: a relative one would resolve against the service's folder. */
function fillIn(text: string, folder: string): string {
  const component = join(folder, 'my-action.wasm');
  const plain = /^\/[\w./+-]+$/.test(component);
  return text.replace(COMPONENT, () => (plain ? component : JSON.stringify(component)));
}

import { constants, type FileHandle, open, readlink, realpath, stat } from 'node:fs/promises';
import { relative, sep } from 'node:path';

/** A file that is not read, although it exists. */
export class ContainedFileError extends Error {
  override readonly name = 'ContainedFileError';
  readonly problem: 'outside' | 'not-a-file' | 'too-large' | 'replaced';

  constructor(problem: ContainedFileError['problem']) {
    super(problem);
    this.problem = problem;
  }
}

/** Returns whether a path is inside a folder; both without links. */
export function isInside(folder: string, path: string): boolean {
  const relativePath = relative(folder, path);
  return relativePath !== '' && relativePath !== '..' && !relativePath.startsWith(`..${sep}`);
}

/**
 * Reads a regular file of at most `maxBytes`, with links resolved: only inside a folder, if there is one. Rejects with
 * {@link ContainedFileError} or the error of the system. The location of the opened file is checked, since a part of the path may
 * become another link at any time.
 */
export async function readContainedFile(path: string, folder: string | undefined, maxBytes: number): Promise<Buffer> {
  // Opening a pipe or a device could block or have effects. What replaces the file meanwhile is opened without waiting for a writer.
  if (!(await stat(path)).isFile()) throw new ContainedFileError('not-a-file');
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  try {
    if (folder !== undefined && !isInside(await realpath(folder), await locationOf(file, path)))
      throw new ContainedFileError('outside');
    const opened = await file.stat();
    if (!opened.isFile()) throw new ContainedFileError('not-a-file');
    if (opened.size > maxBytes) throw new ContainedFileError('too-large');
    // Not trusting the size: files of the system have others.
    const chunks = await file.createReadStream({ end: maxBytes, autoClose: false }).toArray();
    const content = Buffer.concat(chunks);
    if (content.length > maxBytes) throw new ContainedFileError('too-large');
    return content;
  } finally {
    await file.close();
  }
}

/** Path of an open file. Without `/proc`, its path is resolved again and must lead to the same file. */
async function locationOf(file: FileHandle, path: string): Promise<string> {
  try {
    return await readlink(`/proc/self/fd/${file.fd}`);
  } catch {
    const resolved = await realpath(path);
    const [found, opened] = await Promise.all([stat(resolved), file.stat()]);
    if (found.dev !== opened.dev || found.ino !== opened.ino) throw new ContainedFileError('replaced');
    return resolved;
  }
}

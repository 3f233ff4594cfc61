import { constants } from 'node:fs';
import { open, realpath, stat } from 'node:fs/promises';
import { join, sep } from 'node:path';

/** Content of a secret's file, or why there is none: a predicate, such as "is not a regular file". */
export interface SecretFileContent {
  readonly value?: string;
  readonly problem?: string;
  /** Milliseconds of `performance.now()`. */
  readonly readAt: number;
}

/** Time for which a content is used. */
export const SECRET_FILE_MS = 1_000;

/** Longest value and its line break. */
const MAX_BYTES = 8_192 + 2;

const MAX_ATTEMPTS = 3;

/**
 * Reads a file in the folder for secrets: a regular file, with links resolved, as Kubernetes mounts secrets. Opening it never
 * blocks, also if it is a FIFO. Never rejects.
 */
export async function readSecretFile(folder: string, name: string): Promise<SecretFileContent> {
  const readAt = performance.now();
  try {
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const content = await readInside(folder, join(folder, name));
      if (content) return { ...content, readAt };
    }
    return { problem: 'was replaced while it was read', readAt };
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'UNKNOWN';
    return { problem: code === 'ENOENT' ? 'does not exist' : `cannot be read (${code})`, readAt };
  }
}

type Content = Omit<SecretFileContent, 'readAt'>;

/** Undefined if the file was replaced meanwhile, as when a secret is rotated. */
async function readInside(folder: string, path: string): Promise<Content | undefined> {
  if (!(await isInside(folder, path))) return { problem: 'is a link to a file outside of SERVICE_SECRETS_PATH' };
  // Without waiting for the writer of a FIFO, and without acquiring a terminal.
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  try {
    // Of the opened file: the path may have become another one since.
    const opened = await file.stat();
    if (!opened.isFile()) return { problem: 'is not a regular file' };
    const now = await stat(path);
    if (!(await isInside(folder, path)) || now.ino !== opened.ino || now.dev !== opened.dev) return undefined;
    if (opened.size > MAX_BYTES) return { problem: `has more than ${MAX_BYTES - 2} bytes` };
    // Not trusting the size: files of the system have none.
    const { buffer, bytesRead } = await file.read(Buffer.alloc(MAX_BYTES + 1), 0, MAX_BYTES + 1, 0);
    if (bytesRead > MAX_BYTES) return { problem: `has more than ${MAX_BYTES - 2} bytes` };
    return { value: buffer.toString('latin1', 0, bytesRead) };
  } finally {
    await file.close();
  }
}

/** Whether a path is inside the folder once links are resolved. Throws if it does not exist. */
async function isInside(folder: string, path: string): Promise<boolean> {
  return (await realpath(path)).startsWith(`${await realpath(folder)}${sep}`);
}

import { join } from 'node:path';
import { ContainedFileError, readContainedFile } from './contained-file.ts';

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

const PROBLEMS = {
  outside: 'is a link to a file outside of SERVICE_SECRETS_PATH',
  'not-a-file': 'is not a regular file',
  'too-large': `has more than ${MAX_BYTES - 2} bytes`,
  replaced: 'was replaced while it was read',
} as const;

/** Reads a file in the folder for secrets: a regular file, with links resolved, as Kubernetes mounts secrets. Never rejects. */
export async function readSecretFile(folder: string, name: string): Promise<SecretFileContent> {
  const readAt = performance.now();
  try {
    return { value: (await readContainedFile(join(folder, name), folder, MAX_BYTES)).toString('latin1'), readAt };
  } catch (error) {
    if (error instanceof ContainedFileError) return { problem: PROBLEMS[error.problem], readAt };
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'UNKNOWN';
    return { problem: code === 'ENOENT' ? 'does not exist' : `cannot be read (${code})`, readAt };
  }
}

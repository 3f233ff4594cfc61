const REASONS: ReadonlyMap<string, string> = new Map([
  ['ENOENT', 'no such file'],
  ['EACCES', 'permission denied'],
  ['EPERM', 'permission denied'],
  ['EISDIR', 'is a folder'],
  ['ENOTDIR', 'a part of the path is not a folder'],
  ['EROFS', 'the file system is read-only'],
  ['ENOSPC', 'the disk is full'],
  ['ELOOP', 'too many symbolic links'],
]);

/** Returns the code of a system error, such as `ENOENT`; undefined for other errors. */
export function errorCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

/** Returns why a file could not be read or written; undefined when the error is not a system error. */
export function errorReason(error: unknown): string | undefined {
  const code = errorCode(error);
  return code === undefined ? undefined : (REASONS.get(code) ?? code);
}

const REASONS: ReadonlyMap<string, string> = new Map([
  ['ENOENT', 'no such file'],
  ['EACCES', 'permission denied'],
  ['EPERM', 'permission denied'],
  ['EISDIR', 'it is a folder'],
  ['ENOTDIR', 'a part of the path is no folder'],
  ['EROFS', 'the disk is read-only'],
  ['ENOSPC', 'the disk is full'],
  ['ELOOP', 'symbolic links lead in a circle'],
]);

/** The code of an error of the system, such as `ENOENT`; undefined for any other error. */
export function errorCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

/** Why a file could not be read or written, in words; undefined for what is no error of the system. */
export function errorReason(error: unknown): string | undefined {
  const code = errorCode(error);
  return code === undefined ? undefined : (REASONS.get(code) ?? code);
}

/**
 * True for a path that a server may take for another one than it says: with a segment `.` or `..`, also one that is
 * encoded, is set off by a backslash or has parameters behind it, which some servers take off first.
 */
export function hasDotSegments(path: string): boolean {
  // Nearly no path has a dot that could be one.
  if (!/[/\\.]\.|%2e|%2f\.|%5c\./i.test(path)) return false;
  const decoded = path.replace(/%2e/gi, '.').replace(/%2f|%5c|\\/gi, '/');
  return decoded.split('/').some((segment) => /^\.{1,2}(?:;|$)/.test(segment));
}

/**
 * Returns the resident memory of this process in bytes; undefined if it cannot be read, as when the process has no free file
 * descriptor.
 */
export function residentBytes(): number | undefined {
  try {
    return process.memoryUsage.rss();
  } catch {
    return undefined;
  }
}

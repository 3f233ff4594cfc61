import { closeSync, openSync, readFileSync } from 'node:fs';

/** Message to clients when the process cannot open another file. */
export const TOO_MANY_OPEN_FILES = 'too many open files: try again later';

/** Shares of the open files of the process; the rest is for everything else: files, processes, gRPC, the database. */
const LISTENER_SHARE = 0.6;
const UPSTREAM_SHARE = 0.25;
/** Part of the share of the listeners. */
const REJECTED_SHARE = 0.05;

/** Numbers of sockets that the process may open; undefined where the system has no limit. */
export interface SocketLimits {
  /** Connections of all listeners, without those that are rejected. */
  readonly listeners: number | undefined;
  /** Connections that are accepted only in order to reject their requests. */
  readonly rejected: number | undefined;
  /** Connections of HTTP to upstreams. */
  readonly upstreams: number | undefined;
}

/** Returns the limits for a process that may open so many files. */
export function socketLimits(openFiles: number | undefined): SocketLimits {
  const part = (share: number) => openFiles && Math.max(1, Math.floor(openFiles * share));
  return {
    listeners: part(LISTENER_SHARE - REJECTED_SHARE),
    rejected: part(REJECTED_SHARE),
    upstreams: part(UPSTREAM_SHARE),
  };
}

/** Returns the number of files that the process may open; undefined without a limit, or where it is not known. */
export function openFilesLimit(): number | undefined {
  return limitOfProc() ?? limitOfReport();
}

function limitOfProc(): number | undefined {
  try {
    const soft = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1'))?.[1];
    return soft === undefined ? undefined : Number(soft);
  } catch {
    // Not Linux.
    return undefined;
  }
}

/** Takes some 50 ms, so only where there is nothing better. */
function limitOfReport(): number | undefined {
  const { report } = process;
  if (report === undefined) return undefined;
  // The report would look up the names of peers, and contain the environment.
  const settings = ['excludeNetwork', 'excludeEnv'].map((name) => [name, Reflect.get(report, name)] as const);
  for (const [name] of settings) Reflect.set(report, name, true);
  try {
    const content: { userLimits?: { open_files?: { soft?: unknown } } } = report.getReport();
    const soft = content.userLimits?.open_files?.soft;
    return typeof soft === 'number' ? soft : undefined;
  } finally {
    for (const [name, value] of settings) Reflect.set(report, name, value);
  }
}

/**
 * Returns whether the process can open so many more files now. Some failures do not say that it cannot: a name lookup
 * reports an unknown name, and a module whose import fails once cannot be imported again.
 */
export function canOpenFiles(count = 1): boolean {
  const opened: number[] = [];
  try {
    for (let at = 0; at < count; at++) opened.push(openSync('/dev/null', 'r'));
    return true;
  } catch (error) {
    return !(error instanceof Error && 'code' in error && (error.code === 'EMFILE' || error.code === 'ENFILE'));
  } finally {
    for (const file of opened) closeSync(file);
  }
}

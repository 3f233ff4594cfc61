import { readFile } from 'node:fs/promises';
import { hostname } from 'node:os';

/** What tells one process from another on this host, and whether it still runs. */
export interface Processes {
  readonly host: string;
  readonly pid: number;
  /**
   * When the process began, as a text that a later process of the same number does not share; empty when the platform
   * does not tell. Undefined when no such process runs.
   */
  startOf(pid: number): Promise<string | undefined>;
}

/** The processes of this host, as far as this process sees them. */
export function hostProcesses(): Processes {
  return {
    host: hostname(),
    pid: process.pid,
    async startOf(pid) {
      if (!runs(pid)) return undefined;
      try {
        const stat = await readFile(`/proc/${pid}/stat`, 'latin1');
        // The second field is the command in brackets and may hold anything; state is field 3, start time field 22.
        const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
        // Killed, but not yet collected by its parent: it holds nothing any more.
        if (fields[0] === 'Z' || fields[0] === 'X') return undefined;
        const boot = await readFile('/proc/sys/kernel/random/boot_id', 'latin1');
        return `${boot.trim()}/${fields[19]}`;
      } catch {
        // No /proc on this platform, or the process ended meanwhile.
        return runs(pid) ? '' : undefined;
      }
    },
  };
}

function runs(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: it runs, as another user.
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}

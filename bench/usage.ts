import { existsSync, readdirSync, readFileSync } from 'node:fs';

// The unit of times in /proc is fixed at 1/100 s for programs, whatever the kernel's own tick.
const ticksPerSecond = 100;

/**
 * CPU time that a process has used in user and system mode, all its threads together, in seconds. The scheduler's own
 * account has nanoseconds; where the kernel does not show it, there are hundredths of a second.
 */
export function cpuSeconds(pid: number): number {
  const threads = `/proc/${pid}/task`;
  if (existsSync(`/proc/${pid}/schedstat`)) {
    const used = readdirSync(threads).map((id) =>
      Number.parseInt(readFileSync(`${threads}/${id}/schedstat`, 'latin1'), 10),
    );
    return used.reduce((sum, nanoseconds) => sum + nanoseconds, 0) / 1e9;
  }
  const { fields } = readStat(pid);
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
}

/** Resident memory of a process in MiB. */
export function residentMiB(pid: number): number {
  const match = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
  return Number(match?.[1] ?? Number.NaN) / 1024;
}

/** Ids of the processes whose parent is `pid`. */
export function childrenOf(pid: number): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((candidate) => {
      try {
        return Number(readStat(candidate).fields[1]) === pid;
      } catch {
        // It ended while we looked.
        return false;
      }
    });
}

/** The fields after the command, which may itself hold spaces and brackets: [0] is the state, [1] the parent. */
function readStat(pid: number): { fields: string[] } {
  const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
  return { fields: text.slice(text.lastIndexOf(')') + 2).split(' ') };
}

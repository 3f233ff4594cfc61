import { once } from 'node:events';
import { readdir, readFile, readlink } from 'node:fs/promises';
import { createServer } from 'node:net';
import { basename } from 'node:path';
import type { ListenAddress } from '../http/address.ts';
import { INFERENCE_PORT_OFFSET, MCP_PORT_OFFSET } from './config/config.ts';

/** Distance between the ports that are tried instead of a taken one. */
const STEP = 10;
const ATTEMPTS = 100;
const MAX_PORT = 65_535;
const OFFSETS: readonly number[] = [0, MCP_PORT_OFFSET, INFERENCE_PORT_OFFSET];

/**
 * Explains a port that is in use: by whom, and which one to use instead. `first` is the address of the management API if
 * `--port` moves this listener with it.
 */
export async function explainTakenPort({ host, port }: ListenAddress, first?: ListenAddress): Promise<string> {
  const [owner, free] = await Promise.all([
    portOwner(port),
    first
      ? nextFreePort({ ...first, port: first.port - (first.port % STEP) + STEP }, STEP, OFFSETS)
      : nextFreePort({ host, port: port + 1 }, 1, [0]),
  ]);
  const taken = `the port is in use by ${owner ?? 'another program'} (EADDRINUSE)`;
  if (free === undefined) return taken;
  if (!first) return `${taken}; the next free one is ${free}`;
  return `${taken}; ${free}, ${free + MCP_PORT_OFFSET} and ${free + INFERENCE_PORT_OFFSET} are free: start with --port ${free}`;
}

/** Returns whether a listener of the embedded pipeline has the port that follows from that of the management API. */
export function followsPort(port: number, first: number): boolean {
  return OFFSETS.includes(port - first);
}

/** Returns the error code of binding an address; undefined if it can be bound. */
export async function bindingError({ host, port }: ListenAddress): Promise<string | undefined> {
  const server = createServer();
  try {
    server.listen({ host, port, exclusive: true });
    await once(server, 'listening');
    return undefined;
  } catch (error) {
    return error instanceof Error && 'code' in error ? String(error.code) : 'unknown error';
  } finally {
    server.close();
  }
}

/** Returns the process that listens on a port, as `process 3521 (nginx)`; undefined where the system does not tell. */
export async function portOwner(port: number): Promise<string | undefined> {
  try {
    const inodes = new Set((await Promise.all(['tcp', 'tcp6'].map((name) => listeningInodes(name, port)))).flat());
    if (inodes.size === 0) return undefined;
    const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
    for (const pid of pids) {
      if (await hasSocket(pid, inodes)) {
        // Without its arguments, which may be secret.
        const [program = ''] = (await readFile(`/proc/${pid}/cmdline`, 'utf8')).split('\0');
        return `process ${pid} (${basename(program)})`;
      }
    }
  } catch {
    // No /proc on this system, or the process ended meanwhile.
  }
  return undefined;
}

/** State of a listening socket in `/proc/net/tcp`. */
const LISTENING = '0A';

async function listeningInodes(table: string, port: number): Promise<string[]> {
  const text = await readFile(`/proc/net/${table}`, 'utf8').catch(() => '');
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  return text.split('\n').flatMap((line) => {
    const fields = line.trim().split(/\s+/);
    const inode = fields[9];
    return fields[1]?.endsWith(suffix) && fields[3] === LISTENING && inode !== undefined ? [inode] : [];
  });
}

async function hasSocket(pid: string, inodes: ReadonlySet<string>): Promise<boolean> {
  // Of other users they cannot be read.
  const handles = await readdir(`/proc/${pid}/fd`).catch(() => []);
  const targets = await Promise.all(handles.map((fd) => readlink(`/proc/${pid}/fd/${fd}`).catch(() => '')));
  return targets.some((target) => inodes.has(/^socket:\[(\d+)\]$/.exec(target)?.[1] ?? ''));
}

/** Returns the first port of those from `port` on from which all offsets are free. */
async function nextFreePort(
  { host, port }: ListenAddress,
  step: number,
  offsets: readonly number[],
): Promise<number | undefined> {
  for (let at = 0; at < ATTEMPTS; at++) {
    const candidate = port + at * step;
    if (candidate + Math.max(...offsets) > MAX_PORT) return undefined;
    const errors = await Promise.all(offsets.map((offset) => bindingError({ host, port: candidate + offset })));
    if (errors.every((error) => error === undefined)) return candidate;
  }
  return undefined;
}

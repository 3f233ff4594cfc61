import { constants } from 'node:fs';
import { access, readdir, readFile, statfs } from 'node:fs/promises';
import type { DiagnosticCheck } from '@sluice/contract';
import { isReachable } from '../http/address.ts';
import { checkEndpoint } from '../http/endpoint-check.ts';

/** Version of Node.js on which everything runs. */
const REQUIRED_NODE = 26;
/** Free space of the registry folder. */
const LITTLE_SPACE = { warning: 1024 ** 3, failed: 64 * 1024 ** 2 };
/** Each client, stream and upstream session needs a file. */
const ENOUGH_FILES = 8_192;

/** Checks the version of Node.js. */
export function checkPlatform(): DiagnosticCheck {
  const { node } = process.versions;
  const check = { name: 'platform', message: `Node.js ${node} on ${process.platform} ${process.arch}` };
  if (Number.parseInt(node, 10) >= REQUIRED_NODE) return { ...check, status: 'ok' };
  return { ...check, status: 'failed', remedy: `Install Node.js ${REQUIRED_NODE} or later` };
}

/**
 * Checks that the listeners accept connections, and that nobody but an authenticating proxy is meant to reach them.
 * `addresses` are the bound ones by name; `hasLogin`: an identity provider is configured.
 */
export async function checkListeners(
  addresses: Readonly<Record<string, string>>,
  hasLogin: boolean,
): Promise<DiagnosticCheck> {
  const name = 'ports';
  const all = Object.entries(addresses);
  const checks = await Promise.all(all.map(async ([, address]) => checkEndpoint(new URL(`tcp://${local(address)}`))));
  const list = all.map(([listener, address]) => `${listener} ${address}`).join(', ');
  const failed = checks.find(({ status }) => status !== 'ok');
  if (failed) {
    const remedy = 'Check for a firewall on this machine, and see the log of the service';
    return { name, status: 'failed', message: `${failed.message} (${list})`, remedy };
  }
  if (hasLogin || !all.some(([, address]) => isReachable(address))) return { name, status: 'ok', message: list };
  return {
    name,
    status: 'warning',
    message: `other machines can reach ${list}, and there is no login`,
    remedy:
      'Configure identity in the bootstrap file with "anonymous: deny", let only an authenticating proxy reach these ports, or start the service with --local',
  };
}

/** An address of all interfaces, as this machine reaches it. */
function local(address: string): string {
  return address.replace(/^0\.0\.0\.0:/, '127.0.0.1:').replace(/^\[::\]:/, '[::1]:');
}

/** Checks that the registry folder is writable, and its free space; undefined without persistence. */
export async function checkFolder(folder: string | undefined): Promise<DiagnosticCheck> {
  const name = 'registry folder';
  if (folder === undefined) {
    const remedy = 'Set SERVICE_PERSIST_BACKEND=file unless everything comes from a bootstrap file';
    return { name, status: 'warning', message: 'nothing is stored: the registry ends with the process', remedy };
  }
  try {
    await access(folder, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch {
    return {
      name,
      status: 'failed',
      message: `${folder} is not writable`,
      remedy: 'Give the folder to the user of the service, and check that its file system is not mounted read-only',
    };
  }
  const { bavail, bsize } = await statfs(folder);
  const free = bavail * bsize;
  const status = free < LITTLE_SPACE.failed ? 'failed' : free < LITTLE_SPACE.warning ? 'warning' : 'ok';
  const message = `${folder} is writable, with ${Math.floor(free / 1024 ** 2)} MiB of free space`;
  const remedy = status === 'ok' ? undefined : 'Free space, or move the folder to a larger volume';
  return { name, status, message, remedy };
}

/** Checks the limit of open files of this process. */
export async function checkOpenFiles(): Promise<DiagnosticCheck> {
  const name = 'open files';
  const limits = await readFile('/proc/self/limits', 'latin1').catch(() => '');
  const [, soft] = /^Max open files\s+(\S+)/m.exec(limits) ?? [];
  if (soft === undefined) return { name, status: 'ok', message: 'the limit is unknown on this platform' };
  const open = (await readdir('/proc/self/fd').catch(() => [])).length;
  const message = `${open} of at most ${soft} files are open`;
  const limit = soft === 'unlimited' ? Number.POSITIVE_INFINITY : Number(soft);
  if (limit >= ENOUGH_FILES && open < limit * 0.8) return { name, status: 'ok', message };
  const remedy = `Raise the limit to ${ENOUGH_FILES * 8}: LimitNOFILE= of systemd, --ulimit nofile of containers, ulimit -n of shells`;
  return { name, status: open < limit * 0.8 ? 'warning' : 'failed', message, remedy };
}

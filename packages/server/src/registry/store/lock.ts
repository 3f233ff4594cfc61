import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { isJsonObject, tryParseJson } from '@sluice/protocol/json/parse';
import { z } from 'zod';
import { type Clock, errorCode, type Files, ifExists, type StoreFile } from './files.ts';
import { StoreError, type StoreLog, toStoreError } from './store.ts';

/** The lock file of a folder: host, process id and start time of its owner, as JSON. */
const LOCK_NAME = 'registry.lock';

/** File with the process that uses the folder and the URL of its management API, while it accepts requests: `{pid, url}`. */
const ADDRESS_NAME = 'registry.address';

/** Interval at which the owner renews its lock. */
const RENEW_MS = 5_000;
/** Age at which a lock of another host is stale. */
const EXPIRY_MS = 15_000;
/** Age of the last check at which the owner checks its lock before a write: the process may have been suspended. */
const RECHECK_AFTER_MS = 8_000;
/** Age at which temporary files of interrupted attempts are removed. */
const STALE_TEMP_MS = 60_000;

/** Accepts any content of a lock file: another release may have written it. */
const text = z.union([z.string(), z.number()]).transform(String).catch('');
const lockOwner = z.object({
  /** Unique per lock file. Becomes part of a file name. */
  id: text.transform((id) => id.replaceAll(/[^\w-]/g, '')),
  host: text,
  pid: text.transform(Number).pipe(z.int().positive()).catch(0),
  /** ISO time at which the lock was taken. */
  started: text,
  /** {@link Processes.startOf} of the owner. */
  process: text,
});
type LockOwner = z.output<typeof lockOwner>;

/** What the lock of a folder depends on. */
export interface LockParts {
  folder: string;
  files: Files;
  processes: Processes;
  clock: Clock;
  log: StoreLog;
}

/**
 * Acquires the lock of a folder. Throws {@link StoreError} while a live process of this host owns it, or a process of
 * another host that renewed it within 15 s; a stale lock is taken over with a warning.
 *
 * Each deciding step is atomic in the file system. A lock is created complete, as a hard link to a file written before.
 * The claim to replace a stale lock is a file named after it: the process that created that file, and still finds the
 * stale lock in place, replaces it. If it dies in between, the next process needs the file named after that claim.
 */
export async function takeLock(parts: LockParts): Promise<Lock> {
  const { folder, files, processes, clock } = parts;
  const path = join(folder, LOCK_NAME);
  const id = randomUUID();
  const draft = join(folder, `${LOCK_NAME}.new-${id}`);
  const started = new Date(clock.now()).toISOString();
  const startTime = (await processes.startOf(processes.pid)) ?? '';
  const own: LockOwner = { id, host: processes.host, pid: processes.pid, started, process: startTime };
  const bytes = Buffer.from(`${JSON.stringify(own)}\n`);
  const file = await files.open(draft, 'wx');
  try {
    await file.write(bytes, 0);
    // A power failure must not leave an empty lock.
    await file.sync();
    const now = await files.modified(draft);
    while (!(await attempt({ ...parts, path, draft, own, now })));
    await files.remove(draft);
    await removeStaleFiles(parts, now);
  } catch (error) {
    await file.close();
    await files.remove(draft);
    throw error;
  }
  return new Lock(parts, path, own, { file, bytes });
}

/**
 * Throws {@link StoreError} while a live process holds the lock of a folder. Writes nothing, unlike {@link takeLock}: for
 * a full disk.
 */
export async function checkUnheld(parts: LockParts): Promise<void> {
  const found = await readOwner(parts.files, join(parts.folder, LOCK_NAME));
  if (found) await requireStale(parts, found, parts.clock.now());
}

/** Throws {@link StoreError} if the owner of a lock is alive at this time. */
async function requireStale(parts: LockParts, { owner, renewed }: FoundLock, now: number): Promise<void> {
  const { folder, files, processes } = parts;
  const liveness = await describeLiveness(processes, owner, now - renewed);
  if (liveness === undefined) return;
  const service = owner.host === processes.host ? await readAddress(folder, files) : undefined;
  if (service?.pid === owner.pid) {
    throw new StoreError(
      `Sluice already runs at ${service.url} (process ${owner.pid}) with the registry folder ${folder}: ` +
        'stop it, or set SERVICE_PERSIST_PATH to another folder',
    );
  }
  throw new StoreError(`SERVICE_PERSIST_PATH ${folder}: ${LOCK_NAME} is in use by ${liveness}; one process per folder`);
}

const storedAddress = z.object({ pid: z.int(), url: z.url() });

async function readAddress(folder: string, files: Files): Promise<z.infer<typeof storedAddress> | undefined> {
  try {
    return storedAddress.parse(tryParseJson((await files.read(join(folder, ADDRESS_NAME))).toString()));
  } catch {
    // A process that is starting, or of an earlier release.
    return undefined;
  }
}

/**
 * Stores where the owner of the lock of a folder accepts requests, for the message to a second process. Returns a function that
 * removes it. Fails silently, for example on a full disk.
 */
export async function announceAddress(folder: string, files: Files, url: string): Promise<() => Promise<void>> {
  const path = join(folder, ADDRESS_NAME);
  const remove = () => files.remove(path).catch(() => {});
  try {
    const file = await files.open(path, 'w');
    const text = `${JSON.stringify({ pid: process.pid, url })}\n`;
    await file.write(Buffer.from(text), 0).finally(() => file.close());
  } catch {
    await remove();
  }
  return remove;
}

interface Attempt extends LockParts {
  path: string;
  draft: string;
  own: LockOwner;
  /** The current time by the clock of the file system, which also dates the locks: clocks of hosts may differ. */
  now: number;
}

/** One attempt: true when the lock was acquired, false when a concurrent change requires another attempt. */
async function attempt(parts: Attempt): Promise<boolean> {
  const { folder, files, log, path, draft, own, now } = parts;
  const stale: { path: string; owner: LockOwner }[] = [];
  let target = path;
  while (!(await tryLink(files, draft, target))) {
    const found = await readOwner(files, target);
    if (!found) return false;
    await requireStale(parts, found, now);
    stale.push({ path: target, owner: found.owner });
    target = join(folder, `${LOCK_NAME}.after-${found.owner.id}`);
  }
  const [first] = stale;
  if (!first) return true;
  // The claim is valid only while the lock that was found stale is still in place.
  if ((await readOwner(files, path))?.owner.id !== first.owner.id) {
    await files.remove(target);
    return false;
  }
  await files.rename(draft, path);
  for (const claim of [target, ...stale.slice(1).map(({ path }) => path)]) await files.remove(claim);
  const { host, pid, started } = first.owner;
  log.warn(`taking over stale ${LOCK_NAME}`, { folder, holder: { host, pid, started }, by: own.pid });
  return true;
}

async function tryLink(files: Files, draft: string, target: string): Promise<boolean> {
  try {
    await files.link(draft, target);
    return true;
  } catch (error) {
    if (errorCode(error) === 'EEXIST') return false;
    throw error;
  }
}

interface FoundLock {
  owner: LockOwner;
  /** When it was renewed, by the clock of the file system. */
  renewed: number;
}

/** Reads a lock file; undefined when it does not exist. */
function readOwner(files: Files, path: string): Promise<FoundLock | undefined> {
  const read = async (): Promise<FoundLock> => {
    const renewed = await files.modified(path);
    return { owner: parseOwner((await files.read(path)).toString(), renewed), renewed };
  };
  return ifExists(read());
}

function parseOwner(json: string, renewed: number): LockOwner {
  const value = tryParseJson(json);
  const { id, ...others } = lockOwner.parse(isJsonObject(value) ? value : {});
  // An unreadable lock is identified by its time.
  return { id: id || `unknown-${Math.round(renewed)}`, ...others };
}

/** Describes the owner of a lock for an error; undefined when the lock is stale. `age`: milliseconds since its renewal. */
async function describeLiveness(processes: Processes, owner: LockOwner, age: number): Promise<string | undefined> {
  const isFresh = age < EXPIRY_MS;
  if (owner.host !== processes.host) {
    if (!isFresh) return undefined;
    const seconds = Math.max(0, Math.round(age / 1000));
    return `process ${owner.pid} on host "${owner.host}" (renewed ${seconds} s ago; stale after ${EXPIRY_MS / 1000} s)`;
  }
  const startTime = owner.pid === 0 ? undefined : await processes.startOf(owner.pid);
  if (startTime === undefined) return undefined;
  // Process ids are reused. Without start times only the renewal shows whether it is still the same process.
  const same = startTime && owner.process ? startTime === owner.process : isFresh;
  return same ? `process ${owner.pid} of this host, running since ${owner.started}` : undefined;
}

async function removeStaleFiles({ folder, files }: LockParts, now: number): Promise<void> {
  for (const name of await files.list(folder)) {
    if (!name.startsWith(`${LOCK_NAME}.`)) continue;
    const path = join(folder, name);
    const modified = await ifExists(files.modified(path));
    if (modified !== undefined && now - modified > STALE_TEMP_MS) await files.remove(path);
  }
}

/** A lock owned by this process; see {@link takeLock}. */
export class Lock {
  readonly #parts: LockParts;
  readonly #path: string;
  readonly #own: LockOwner;
  /** The open file: renewing through it never changes the lock of another process. */
  readonly #lockFile: { file: StoreFile; bytes: Uint8Array };
  #checked: number;
  #lost: StoreError | undefined;
  #released = false;
  #cancel: () => void = () => {};
  #renewing: Promise<void> = Promise.resolve();

  constructor(parts: LockParts, path: string, own: LockOwner, pending: { file: StoreFile; bytes: Uint8Array }) {
    this.#parts = parts;
    this.#path = path;
    this.#own = own;
    this.#lockFile = pending;
    this.#checked = parts.clock.now();
    this.#schedule();
  }

  /** Throws {@link StoreError} when another process has taken over the lock, or when that cannot be determined. */
  async check({ now = false } = {}): Promise<void> {
    if (this.#lost) throw this.#lost;
    const age = this.#parts.clock.now() - this.#checked;
    if (!now && age >= 0 && age < RECHECK_AFTER_MS) return;
    let found: FoundLock | undefined;
    try {
      found = await readOwner(this.#parts.files, this.#path);
    } catch (error) {
      throw toStoreError(`${this.#path} cannot be read`, error);
    }
    if (found?.owner.id === this.#own.id) {
      this.#checked = this.#parts.clock.now();
      return;
    }
    const by = found ? `taken over by process ${found.owner.pid} on host "${found.owner.host}"` : 'removed';
    this.#lost ??= new StoreError(`${this.#path} was ${by}: this process can no longer write; restart it`);
    throw this.#lost;
  }

  async release(): Promise<void> {
    this.#released = true;
    this.#cancel();
    await this.#renewing;
    try {
      await this.check({ now: true });
      await this.#parts.files.remove(this.#path);
    } catch {
      // A lock that was lost or cannot be read is left in place; it becomes stale when this process ends.
    }
    await this.#lockFile.file.close();
  }

  #schedule(): void {
    this.#cancel = this.#parts.clock.after(RENEW_MS, () => {
      this.#renewing = this.#renew();
    });
  }

  async #renew(): Promise<void> {
    try {
      await this.check({ now: true });
      await this.#lockFile.file.write(this.#lockFile.bytes, 0);
    } catch (error) {
      this.#parts.log.error('renewing registry.lock failed', { error });
      if (this.#lost) return;
    }
    if (!this.#released) this.#schedule();
  }
}

/** Identity and liveness of processes on this host. */
export interface Processes {
  readonly host: string;
  readonly pid: number;
  /**
   * Start time of a process, as a text that differs for a later process with the same id; empty when the platform does
   * not provide it. Undefined when no such process is running.
   */
  startOf(pid: number): Promise<string | undefined>;
}

/** The processes visible to this process. */
export function hostProcesses(): Processes {
  return {
    host: hostname(),
    pid: process.pid,
    async startOf(pid) {
      if (!isRunning(pid)) return undefined;
      try {
        const stat = await readFile(`/proc/${pid}/stat`, 'latin1');
        // The second field is the command in brackets and may contain anything; state is field 3, start time field 22.
        const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
        // A zombie owns no lock.
        if (fields[0] === 'Z' || fields[0] === 'X') return undefined;
        const boot = await readFile('/proc/sys/kernel/random/boot_id', 'latin1');
        return `${boot.trim()}/${fields[19]}`;
      } catch {
        // No /proc on this platform, or the process ended meanwhile.
        return isRunning(pid) ? '' : undefined;
      }
    },
  };
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: it runs, as another user.
    return errorCode(error) === 'EPERM';
  }
}

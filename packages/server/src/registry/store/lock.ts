import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { type Clock, errorCode, errorReason, type Files, type StoreFile } from './files.ts';
import { StoreError, type StoreLog } from './store.ts';

/** The folder's lock file: host, process id and start time of its holder, in JSON (decisions 1.5). */
const LOCK_NAME = 'registry.lock';

/** The holder writes its lock anew this often. */
const RENEW_MS = 5_000;
/** A lock of another host that was not renewed for this long is taken over. */
const EXPIRY_MS = 15_000;
/** The holder looks at its lock before it writes when it did not for this long: a process may have slept meanwhile. */
const RECHECK_AFTER_MS = 8_000;
/** Left-overs of attempts that died half-way are swept when they are older than this. */
const STALE_TEMP_MS = 60_000;

/** The folder, held for this process alone. */
export interface Lock {
  /** Resolves when this process still holds the folder. Throws {@link StoreError} when another took it, or when that cannot be told. */
  check(options?: { now: boolean }): Promise<void>;
  release(): Promise<void>;
}

interface Holder {
  /** Unlike for any two lock files, so that a lock is known again. */
  id: string;
  host: string;
  pid: number;
  /** ISO time at which the lock was taken. */
  started: string;
  /** {@link Processes.startOf} of the holder. */
  process: string;
}

interface LockParts {
  folder: string;
  files: Files;
  processes: Processes;
  clock: Clock;
  log: StoreLog;
}

/**
 * Takes the folder's lock. Throws {@link StoreError} while a live process of this host holds it, or one of another host
 * that renewed it within 15 s; any other lock is taken over, with a warning.
 *
 * Every step that decides is one that the file system does for one process only: a lock comes into being whole, as a
 * second name of a file written before, and the right to replace a dead one is a file named after it. Whoever made
 * that file, and then still finds the dead lock in place, replaces it; should he die in between, the next one needs
 * the file named after his.
 */
export async function takeLock(parts: LockParts): Promise<Lock> {
  const { folder, files, processes, clock } = parts;
  const path = join(folder, LOCK_NAME);
  const id = randomUUID();
  const draft = join(folder, `${LOCK_NAME}.new-${id}`);
  const started = new Date(clock.now()).toISOString();
  const begun = (await processes.startOf(processes.pid)) ?? '';
  const own: Holder = { id, host: processes.host, pid: processes.pid, started, process: begun };
  const bytes = Buffer.from(`${JSON.stringify(own)}\n`);
  const file = await files.open(draft, 'wx');
  try {
    await file.write(bytes, 0);
    // A power cut must not leave a lock that names nobody.
    await file.sync();
    const now = await files.modified(draft);
    while (!(await attempt({ ...parts, path, draft, own, now })));
    await files.remove(draft);
    await sweep(parts, now);
  } catch (error) {
    await file.close();
    await files.remove(draft);
    throw error;
  }
  return new HeldLock(parts, path, own, { file, bytes });
}

interface Attempt extends LockParts {
  path: string;
  draft: string;
  own: Holder;
  /** The present by the file system's clock, which also stamped the locks found: hosts need not agree on the time. */
  now: number;
}

/** One try: true when the lock is taken, false when something moved and the try has to be made anew. */
async function attempt({ folder, files, processes, log, path, draft, own, now }: Attempt): Promise<boolean> {
  const dead: { path: string; holder: Holder }[] = [];
  let target = path;
  while (!(await linked(files, draft, target))) {
    const found = await readHolder(files, target);
    if (!found) return false;
    const liveness = await describeLiveness(processes, found.holder, now - found.renewed);
    if (liveness !== undefined) {
      throw new StoreError(
        `SERVICE_PERSIST_PATH ${folder}: ${LOCK_NAME} is held by ${liveness}; one process per folder`,
      );
    }
    dead.push({ path: target, holder: found.holder });
    target = join(folder, `${LOCK_NAME}.after-${found.holder.id}`);
  }
  const [first] = dead;
  if (!first) return true;
  // The right to replace is ours only while what we judged dead is still what lies there.
  if ((await readHolder(files, path))?.holder.id !== first.holder.id) {
    await files.remove(target);
    return false;
  }
  await files.rename(draft, path);
  for (const claim of [target, ...dead.slice(1).map(({ path }) => path)]) await files.remove(claim);
  const { host, pid, started } = first.holder;
  log.warn(`${LOCK_NAME} in ${folder} was left by a process that is gone and is taken over`, {
    holder: { host, pid, started },
    by: own.pid,
  });
  return true;
}

async function linked(files: Files, draft: string, target: string): Promise<boolean> {
  try {
    await files.link(draft, target);
    return true;
  } catch (error) {
    if (errorCode(error) === 'EEXIST') return false;
    throw error;
  }
}

/** The holder that the file names; undefined when there is no such file (any more). */
async function readHolder(files: Files, path: string): Promise<{ holder: Holder; renewed: number } | undefined> {
  try {
    const renewed = await files.modified(path);
    return { holder: parseHolder((await files.read(path)).toString(), renewed), renewed };
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}

function parseHolder(text: string, renewed: number): Holder {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = undefined;
  }
  const member = (key: string): string => {
    if (typeof value !== 'object' || value === null) return '';
    const found: unknown = Reflect.get(value, key);
    return typeof found === 'string' || typeof found === 'number' ? String(found) : '';
  };
  // A file that is not ours to understand is known by its time; the name made of it has to be a file name.
  const id = member('id').replaceAll(/[^\w-]/g, '') || `unknown-${Math.round(renewed)}`;
  const pid = Number(member('pid'));
  return {
    id,
    host: member('host'),
    pid: Number.isSafeInteger(pid) && pid > 0 ? pid : 0,
    started: member('started'),
    process: member('process'),
  };
}

/** Who holds the lock, in words for an error; undefined when its holder is gone. `age` is the time since its renewal. */
async function describeLiveness(processes: Processes, holder: Holder, age: number): Promise<string | undefined> {
  const fresh = age < EXPIRY_MS;
  if (holder.host !== processes.host) {
    if (!fresh) return undefined;
    const seconds = Math.max(0, Math.round(age / 1000));
    return `process ${holder.pid} on host "${holder.host}" (renewed ${seconds} s ago; ends after ${EXPIRY_MS / 1000} s without)`;
  }
  const begun = holder.pid === 0 ? undefined : await processes.startOf(holder.pid);
  if (begun === undefined) return undefined;
  // Numbers of processes are given again. Without start times only the renewal tells whether it is still the holder.
  const same = begun && holder.process ? begun === holder.process : fresh;
  return same ? `process ${holder.pid} of this host, running since ${holder.started}` : undefined;
}

async function sweep({ folder, files }: LockParts, now: number): Promise<void> {
  for (const name of await files.list(folder)) {
    if (!name.startsWith(`${LOCK_NAME}.`)) continue;
    const path = join(folder, name);
    try {
      if (now - (await files.modified(path)) > STALE_TEMP_MS) await files.remove(path);
    } catch (error) {
      if (errorCode(error) !== 'ENOENT') throw error;
    }
  }
}

class HeldLock implements Lock {
  readonly #parts: LockParts;
  readonly #path: string;
  readonly #own: Holder;
  /** The file itself, by whatever name: renewing through it never touches another's lock. */
  readonly #held: { file: StoreFile; bytes: Uint8Array };
  #checked: number;
  #lost: StoreError | undefined;
  #released = false;
  #cancel: () => void = () => {};
  #renewing: Promise<void> = Promise.resolve();

  constructor(parts: LockParts, path: string, own: Holder, held: { file: StoreFile; bytes: Uint8Array }) {
    this.#parts = parts;
    this.#path = path;
    this.#own = own;
    this.#held = held;
    this.#checked = parts.clock.now();
    this.#schedule();
  }

  async check({ now }: { now: boolean } = { now: false }): Promise<void> {
    if (this.#lost) throw this.#lost;
    const age = this.#parts.clock.now() - this.#checked;
    if (!now && age >= 0 && age < RECHECK_AFTER_MS) return;
    let found: Awaited<ReturnType<typeof readHolder>>;
    try {
      found = await readHolder(this.#parts.files, this.#path);
    } catch (error) {
      throw new StoreError(`${this.#path} cannot be read: ${errorReason(error)}`, { cause: error });
    }
    if (found?.holder.id === this.#own.id) {
      this.#checked = this.#parts.clock.now();
      return;
    }
    const by = found ? `taken over by process ${found.holder.pid} on host "${found.holder.host}"` : 'removed';
    this.#lost ??= new StoreError(`${this.#path} was ${by}: this process writes no more; restart it`);
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
      // What is not ours any more, or cannot be read, is left alone; after our death it is taken over.
    }
    await this.#held.file.close();
  }

  #schedule(): void {
    this.#cancel = this.#parts.clock.after(RENEW_MS, () => {
      this.#renewing = this.#renew();
    });
  }

  async #renew(): Promise<void> {
    try {
      await this.check({ now: true });
      await this.#held.file.write(this.#held.bytes, 0);
    } catch (error) {
      this.#parts.log.error('the lock of the registry could not be renewed', { error });
      if (this.#lost) return;
    }
    if (!this.#released) this.#schedule();
  }
}

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

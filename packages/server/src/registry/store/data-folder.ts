import { join } from 'node:path';
import { isDiskFull } from './files.ts';
import { checkUnheld, type Lock, type LockParts, takeLock } from './lock.ts';
import { StoreError, toStoreError } from './store.ts';

/**
 * The folder of `SERVICE_PERSIST_PATH`, locked for this process.
 *
 * On a full disk, which leaves no room for the lock, it is read without one. The first write that succeeds takes the lock, unless
 * another process has written meanwhile.
 */
export class DataFolder {
  readonly #parts: LockParts;
  #lock: Lock | undefined;
  /** The files of the registry, as they were read without a lock. */
  #readFiles = '';
  #locking: Promise<void> | undefined;

  /** Creates and locks the folder. Throws {@link StoreError}. */
  static async open(parts: LockParts): Promise<DataFolder> {
    const folder = new DataFolder(parts);
    await folder.#open();
    return folder;
  }

  private constructor(parts: LockParts) {
    this.#parts = parts;
  }

  get isLocked(): boolean {
    return this.#lock !== undefined;
  }

  /** Throws {@link StoreError} unless this process may write to the folder; `now`: a recent answer does not suffice. */
  async checkWritable(now: boolean): Promise<void> {
    if (!this.#lock) {
      this.#locking ??= this.#lockUnchanged().finally(() => {
        this.#locking = undefined;
      });
      await this.#locking;
    }
    await this.#lock?.check({ now });
  }

  async close(): Promise<void> {
    await this.#lock?.release();
    this.#lock = undefined;
  }

  async #open(): Promise<void> {
    try {
      this.#lock = await this.#takeLock();
    } catch (error) {
      if (!isDiskFull(error)) throw error;
      const { folder, files, log } = this.#parts;
      // Without the folder there is nothing to serve.
      await files.list(folder).catch(() => Promise.reject(error));
      await checkUnheld(this.#parts);
      log.error('disk full: the registry is served, but cannot be changed until there is space', { folder, error });
      this.#readFiles = await this.#describeFiles();
    }
  }

  async #takeLock(): Promise<Lock> {
    const { folder, files } = this.#parts;
    try {
      await files.makeFolder(folder);
      return await takeLock(this.#parts);
    } catch (error) {
      throw toStoreError(`SERVICE_PERSIST_PATH ${folder} is not writable`, error);
    }
  }

  /** Takes the lock if the files are still those that were read. */
  async #lockUnchanged(): Promise<void> {
    const { folder, log } = this.#parts;
    const lock = await this.#takeLock();
    if ((await this.#describeFiles()) !== this.#readFiles) {
      await lock.release();
      throw new StoreError(`another process has changed ${folder} since this one has read it; restart it`);
    }
    this.#lock = lock;
    log.warn('the disk has space again: the registry can be changed', { folder });
  }

  /** Names and times of the files of the registry. */
  async #describeFiles(): Promise<string> {
    const { folder, files } = this.#parts;
    const names = (await files.list(folder)).filter((name) => /^registry\.(?:json|journal\.\d+)$/.test(name));
    const described = names.sort().map(async (name) => `${name} ${await files.modified(join(folder, name))}`);
    return (await Promise.all(described)).join('\n');
  }
}

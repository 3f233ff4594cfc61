import { join } from 'node:path';
import { Damage } from '../../registry/store/damage.ts';
import { type Files, readIfThere, reason } from '../../registry/store/files.ts';
import { replaceFile } from '../../registry/store/replace.ts';
import { StoreError, type StoreLog } from '../../registry/store/store.ts';
import { readRevisions } from './read-revisions.ts';
import { revisionJson } from './revision.ts';
import { NO_REVISIONS, type Revisions } from './revisions.ts';

/** Beside `registry.json` (decisions 4.5). */
const FILE = 'evaluator-revisions.json';

/** Keeps the revisions over restarts. */
export interface RevisionStore {
  /** Called once, before anything is saved. Throws {@link StoreError}. */
  load(): Promise<Revisions>;
  /** Resolves when they are durable. Throws {@link StoreError}: what was saved before is then kept. */
  save(revisions: Revisions): Promise<void>;
}

/** Keeps them for as long as the process runs, of which nothing has to be done here. */
export function revisionsInMemory(): RevisionStore {
  return { load: async () => NO_REVISIONS, save: async () => {} };
}

/** What {@link revisionsInFolder} is told. */
export interface RevisionsFolder {
  /** SERVICE_PERSIST_PATH, which exists and is locked for this process. */
  readonly folder: string;
  /** True with SERVICE_PERSIST_RECOVER=rename: a damaged file is set aside instead of stopping the start. */
  readonly recover: boolean;
  readonly files: Files;
  readonly log: StoreLog;
  /** Epoch milliseconds. */
  readonly now: () => number;
}

/** Keeps them in `evaluator-revisions.json` (decisions 1.5, 4.5). */
export function revisionsInFolder(options: RevisionsFolder): RevisionStore {
  return new FileStore(options);
}

class FileStore implements RevisionStore {
  readonly #options: RevisionsFolder;
  readonly #path: string;
  #saved = NO_REVISIONS;

  constructor(options: RevisionsFolder) {
    this.#options = options;
    this.#path = join(options.folder, FILE);
  }

  async load(): Promise<Revisions> {
    try {
      const bytes = await readIfThere(this.#options.files, this.#path);
      if (bytes) this.#saved = readRevisions(FILE, bytes);
    } catch (error) {
      if (!(error instanceof Damage))
        throw new StoreError(`${this.#path} cannot be read: ${reason(error)}`, { cause: error });
      if (!this.#options.recover) {
        throw new StoreError(
          `${this.#path} ${error.message}; mend it, or set SERVICE_PERSIST_RECOVER=rename to start without it`,
          { cause: error },
        );
      }
      await this.#setAside();
    }
    return this.#saved;
  }

  async save(revisions: Revisions): Promise<void> {
    try {
      await this.#write(revisions);
    } catch (error) {
      // The new content is in place when only its name could not be made durable: a restart would find what was refused.
      await this.#write(this.#saved).catch(() => {});
      throw new StoreError(`${this.#path} could not be written: ${reason(error)}`, { cause: error });
    }
    this.#saved = revisions;
  }

  async #setAside(): Promise<void> {
    const { folder, files, log, now } = this.#options;
    const aside = `${FILE}.corrupt-${now()}`;
    try {
      await files.rename(this.#path, join(folder, aside));
      await files.syncFolder(folder);
    } catch (error) {
      throw new StoreError(`${this.#path} is damaged and could not be renamed: ${reason(error)}`, { cause: error });
    }
    log.error(`${FILE} was set aside as ${aside}; the service starts without it`, { folder });
  }

  #write(revisions: Revisions): Promise<void> {
    return replaceFile(this.#options.files, this.#path, slices(revisions));
  }
}

/** A revision is one line: deep schemas would be mostly blanks if they were indented. */
function* slices({ list, activeId, nextId }: Revisions): Generator<string> {
  yield '{\n  "revisions": [';
  for (const [index, revision] of list.entries()) yield `${index === 0 ? '' : ','}\n    ${revisionJson(revision)}`;
  yield `\n  ],\n  "active_id": ${activeId ?? null},\n  "next_id": ${nextId}\n}\n`;
}

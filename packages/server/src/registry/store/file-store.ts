import { isUtf8 } from 'node:buffer';
import { join } from 'node:path';
import { elements, members } from '@sluice/protocol/json/scan';
import {
  ChecksummedLog,
  type Clock,
  CorruptFileError,
  diskFiles,
  errorCode,
  type Files,
  readIfThere,
  readSealedLines,
  reason,
  replaceFile,
  systemClock,
} from './journaled-file.ts';
import { hostProcesses, type Lock, type Processes, takeLock } from './lock.ts';
import {
  type Change,
  type Loaded,
  noEntries,
  SECTIONS,
  type Section,
  type SnapshotSource,
  type Store,
  StoreError,
  type StoreLog,
} from './store.ts';

/** The file name of a journal generation. */
export function journalName(generation: number): string {
  return `registry.journal.${generation}`;
}

/** The generation that a file name stands for; undefined for other files. */
export function journalGeneration(name: string): number | undefined {
  const digits = /^registry\.journal\.([1-9]\d{0,14})$/.exec(name)?.[1];
  return digits === undefined ? undefined : Number(digits);
}

/**
 * One generation of the journal under way. A line is what one write made durable: the commits of all who waited, as
 * `[[change, …], …]`, sealed with a checksum. Lines are written one after the other by one caller.
 */
export class Journal {
  readonly generation: number;
  readonly #lines: ChecksummedLog;

  constructor(files: Files, folder: string, generation: number) {
    this.#lines = new ChecksummedLog(files, folder, join(folder, journalName(generation)));
    this.generation = generation;
  }

  /** True when it holds something. */
  get used(): boolean {
    return this.#lines.length > 0;
  }

  /** False while a refused write lies behind the durable bytes: a crash before {@link mend} could bring it back. */
  get clean(): boolean {
    return this.#lines.clean;
  }

  /**
   * Makes the commits durable. Throws the system error when the disk refuses; what was written is then taken back,
   * and while even that fails, every further attempt fails too.
   */
  append(commits: readonly (readonly Change[])[]): Promise<void> {
    return this.#lines.append(lineOf(commits));
  }

  /** Cuts off what a refused write left, durably. Throws the system error. */
  mend(): Promise<void> {
    return this.#lines.mend();
  }

  close(): Promise<void> {
    return this.#lines.close();
  }
}

/** The line that holds these commits, text by text. */
function* lineOf(commits: readonly (readonly Change[])[]): Generator<string> {
  let separator = '[';
  for (const changes of commits) {
    yield `${separator}[`;
    separator = '';
    for (const change of changes) {
      yield `${separator}${JSON.stringify(change)}`;
      separator = ',';
    }
    yield ']';
    separator = ',';
  }
  yield ']';
}

/**
 * The commits of a journal file. `torn` counts the bytes of an unfinished write at its end, which nobody was told of.
 * Throws {@link CorruptFileError} when a line is broken that others follow, or when a sealed line holds something unknown.
 */
export function readJournal(name: string, bytes: Buffer): { commits: Change[][]; torn: number } {
  const commits: Change[][] = [];
  const torn = readSealedLines(name, bytes, (text, at) => {
    for (const commit of readCommits(name, text, at)) commits.push(commit);
  });
  return { commits, torn };
}

function readCommits(name: string, text: string, at: number): Change[][] {
  const value = parseRecord(text);
  if (Array.isArray(value) && value.every(isCommit)) return value;
  throw new CorruptFileError(name, `holds an unknown change at byte ${at}`);
}

/** The JSON value of the text; undefined when it is none. */
function parseRecord(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isCommit(value: unknown): value is Change[] {
  return Array.isArray(value) && value.every(isChange);
}

function isChange(value: unknown): value is Change {
  if (typeof value !== 'object' || value === null) return false;
  const { op, section, json, id }: { op?: unknown; section?: unknown; json?: unknown; id?: unknown } = value;
  if (!SECTIONS.some((known) => known === section)) return false;
  return op === 'put' ? typeof json === 'string' : op === 'remove' && typeof id === 'string';
}

/** The file that others read too (decisions 1.5). */
export const SNAPSHOT_NAME = 'registry.json';

/** The version of its format that this service reads and writes. */
const VERSION = 1;
/** The member that names the first journal generation which the snapshot does not hold. */
const JOURNAL_MEMBER = 'journal';
/** One slice of a snapshot under way ends at whichever comes first; the event loop turns between slices. */
const SLICE = { entries: 1_000, characters: 512 * 1024, ms: 4 };

/** What `registry.json` holds. */
export interface Snapshot {
  entries: Record<Section, string[]>;
  /** Members that this version does not know, as exact text (key, colon and value), in file order. */
  extras: string[];
  /** The first journal generation to replay on it; undefined in a file that this service did not write. */
  generation: number | undefined;
}

/**
 * Reads the file's bytes. Checks that they are JSON from end to end, so that whoever takes the entries may cut them
 * up without checking again. Throws {@link CorruptFileError}, or {@link StoreError} for a version of the future.
 *
 * The bytes are looked at as Latin-1, where every structural character of UTF-8 JSON is one character at its byte's
 * position: positions serve for both, and no entry keeps the text of the whole file alive.
 */
export function readSnapshot(bytes: Buffer): Snapshot {
  if (!isUtf8(bytes)) throw new CorruptFileError(SNAPSHOT_NAME, 'is not valid UTF-8');
  const text = bytes.toString('latin1');
  const found = new Map<string, { member: string; elements: { start: number; end: number }[] }>();
  const skeleton: string[] = [];
  let copied = 0;
  let last = 0;
  for (const { key, start, end } of members(text)) {
    // From the key's first quote to the value's end; before it stand only the brace or comma and white space.
    const from = text.indexOf('"', last);
    last = end;
    if (!isSection(key)) {
      found.set(key, { member: bytes.toString('utf8', from, end), elements: [] });
      continue;
    }
    const ranges = [...elements(text, start)];
    found.set(key, { member: '', elements: ranges });
    for (const element of ranges) {
      // An empty string in place of each element keeps the rest checkable: what was broken stays broken.
      skeleton.push(text.slice(copied, element.start), '""');
      copied = element.end;
    }
  }
  skeleton.push(text.slice(copied));
  const frame = parseSnapshot(skeleton.join(''));
  if (typeof frame !== 'object' || frame === null || Array.isArray(frame)) {
    throw new CorruptFileError(SNAPSHOT_NAME, 'is not a JSON object');
  }
  checkVersion(Reflect.get(frame, 'version'));
  const entries = noEntries();
  for (const section of SECTIONS) {
    const ranges = found.get(section)?.elements;
    if (!ranges) continue;
    if (!Array.isArray(Reflect.get(frame, section)))
      throw new CorruptFileError(SNAPSHOT_NAME, `member "${section}" is no array`);
    for (const { start, end } of ranges) {
      entries[section].push(readEntry(bytes.toString('utf8', start, end), section, entries[section].length));
    }
  }
  const known = new Set<string>(['version', JOURNAL_MEMBER, ...SECTIONS]);
  const extras = [...found].filter(([key]) => !known.has(key)).map(([, { member }]) => member);
  return { entries, extras, generation: readGeneration(Reflect.get(frame, JOURNAL_MEMBER)) };
}

/**
 * The text of `registry.json` in slices small enough to be made one per turn of the event loop. `generation` is the
 * first journal generation that the picture does not hold.
 */
export function* snapshotSlices(
  picture: ReturnType<SnapshotSource>,
  extras: readonly string[],
  generation: number,
): Generator<string> {
  let slice = `{\n  "version": ${VERSION}`;
  let entries = 0;
  let begun = performance.now();
  for (const section of SECTIONS) {
    slice += `,\n  "${section}": [`;
    let separator = '';
    for (const json of picture[section]) {
      // Text of JSON holds line breaks only between its tokens, never inside a string.
      slice += `${separator}\n    ${json.replaceAll('\n', '\n    ')}`;
      separator = ',';
      entries++;
      if (entries < SLICE.entries && slice.length < SLICE.characters && performance.now() - begun < SLICE.ms) continue;
      yield slice;
      slice = '';
      entries = 0;
      begun = performance.now();
    }
    slice += separator ? '\n  ]' : ']';
  }
  for (const extra of extras) slice += `,\n  ${extra}`;
  yield `${slice},\n  "${JOURNAL_MEMBER}": ${generation}\n}\n`;
}

function isSection(key: string): boolean {
  return SECTIONS.some((section) => section === key);
}

function parseSnapshot(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new CorruptFileError(SNAPSHOT_NAME, `is not valid JSON: ${reason(error)}`, { cause: error });
  }
}

function readEntry(text: string, section: Section, index: number): string {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new CorruptFileError(SNAPSHOT_NAME, `${section}[${index}] is not valid JSON: ${reason(error)}`, {
      cause: error,
    });
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new CorruptFileError(SNAPSHOT_NAME, `${section}[${index}] is not an object`);
  }
  // The reverse of the indentation above: what is read, written and read again does not move to the right.
  return text.replaceAll('\n    ', '\n');
}

function checkVersion(version: unknown): void {
  if (version === undefined || version === VERSION) return;
  if (typeof version === 'number' && version > VERSION) {
    throw new StoreError(
      `${SNAPSHOT_NAME} has version ${version} and this service reads version ${VERSION}: start the release that wrote it`,
    );
  }
  throw new CorruptFileError(SNAPSHOT_NAME, `has an unknown version: ${JSON.stringify(version)}`);
}

function readGeneration(value: unknown): number | undefined {
  if (value === undefined) return undefined;
  if (typeof value === 'number' && Number.isSafeInteger(value) && value > 0) return value;
  throw new CorruptFileError(SNAPSHOT_NAME, `has an unknown value of "${JOURNAL_MEMBER}": ${JSON.stringify(value)}`);
}

/** What a folder held. */
export interface Found {
  snapshot: Snapshot;
  journal: Change[][];
  /** A generation that no file carries yet and that follows on all that do. */
  nextGeneration: number;
}

/**
 * Reads `registry.json` and the journal generations that it does not hold, and sweeps what a stopped fold left. Throws
 * {@link CorruptFileError} for content that is broken, `StoreError` for a version of the future, else system errors.
 */
export async function readFolder(files: Files, folder: string, log: StoreLog): Promise<Found> {
  await files.remove(join(folder, `${SNAPSHOT_NAME}.tmp`));
  // What a killed process left may be in memory alone: it has to be on disk before commits build on it.
  await files.syncFolder(folder);
  const bytes = await readIfThere(files, join(folder, SNAPSHOT_NAME));
  const snapshot: Snapshot = bytes ? readSnapshot(bytes) : { entries: noEntries(), extras: [], generation: 1 };
  const generations = await journalsOf(files, folder);
  // A snapshot from elsewhere does not know of generations: the journal beside it is then taken to be its own.
  const first = snapshot.generation ?? generations[0] ?? 1;
  const journal: Change[][] = [];
  let next = first;
  for (const generation of generations) {
    const name = journalName(generation);
    if (generation < first) {
      await files.remove(join(folder, name));
      continue;
    }
    if (generation !== next) {
      const since = bytes ? `${SNAPSHOT_NAME} continues with ${journalName(next)}` : `there is no ${SNAPSHOT_NAME}`;
      throw new CorruptFileError(name, `does not belong to what it lies beside: ${since}`);
    }
    await files.sync(join(folder, name));
    const { commits, torn } = readJournal(name, await files.read(join(folder, name)));
    for (const commit of commits) journal.push(commit);
    if (torn > 0) log.warn(`an unfinished write at the end of ${name} was dropped`, { folder, bytes: torn });
    next = generation + 1;
  }
  return { snapshot, journal, nextGeneration: next };
}

/**
 * Renames a damaged file, and with it what builds on it, to `<name>.corrupt-<epoch ms>` (decisions 1.5): of the
 * snapshot all journals, of a journal those after it. All carry the same time, so that they can be repaired together.
 * Returns how many there were.
 */
export async function quarantine(
  files: Files,
  folder: string,
  damaged: string,
  now: number,
  log: StoreLog,
): Promise<number> {
  let renamed = 0;
  const generation = journalGeneration(damaged) ?? 0;
  const journals = (await journalsOf(files, folder)).filter((other) => other >= generation).map(journalName);
  for (const name of new Set([damaged, ...journals])) {
    try {
      await files.rename(join(folder, name), join(folder, `${name}.corrupt-${now}`));
    } catch (error) {
      if (errorCode(error) !== 'ENOENT') throw error;
      continue;
    }
    renamed++;
    log.error(`${name} was set aside as ${name}.corrupt-${now}; the service starts without it`, { folder });
  }
  await files.syncFolder(folder);
  return renamed;
}

/** Removes the journal generations before this one. */
export async function removeJournals(files: Files, folder: string, before: number): Promise<void> {
  for (const generation of await journalsOf(files, folder)) {
    if (generation < before) await files.remove(join(folder, journalName(generation)));
  }
}

async function journalsOf(files: Files, folder: string): Promise<number[]> {
  const generations: number[] = [];
  for (const name of await files.list(folder)) {
    const generation = journalGeneration(name);
    if (generation !== undefined) generations.push(generation);
  }
  return generations.sort((a, b) => a - b);
}

/** So long after the first unfolded commit folding begins; it has the rest of the second to end (decisions 1.5). */
const FOLD_AFTER_MS = 500;
/** A fold that failed is tried again after the first time, then twice as long each time up to the second. */
const RETRY_MS = { first: 1_000, longest: 30_000 };

/** What {@link fileStore} is told; files, clock and processes are the real ones unless given. */
export interface FileStoreOptions {
  /** SERVICE_PERSIST_PATH. Made when missing. */
  folder: string;
  /** True with SERVICE_PERSIST_RECOVER=rename: damaged files are set aside instead of stopping the start. */
  recover: boolean;
  picture: SnapshotSource;
  log: StoreLog;
  files?: Files;
  clock?: Clock;
  processes?: Processes;
}

/**
 * The store of `SERVICE_PERSIST_BACKEND=file`: `registry.json`, written anew within a second of a change, and beside it
 * a journal in which a commit is durable at once (decisions 1.5).
 *
 * The journal comes in numbered generations. A fold first lets commits go on in the next generation and takes the
 * picture in the same instant, while none is under way, so that the picture holds exactly what the generations before
 * hold; the snapshot says which generation follows on it; and only when it lies safely in place are the older ones
 * removed. Whenever the process dies, snapshot and following generations together are every commit that was answered.
 */
export function fileStore(options: FileStoreOptions): Store {
  return new FileStore(options);
}

interface Pending {
  changes: readonly Change[];
  publish: () => void;
  resolve: () => void;
  reject: (error: unknown) => void;
}

type Phase = 'new' | 'open' | 'closed';

class FileStore implements Store {
  readonly #folder: string;
  readonly #recover: boolean;
  readonly #picture: SnapshotSource;
  readonly #log: StoreLog;
  readonly #files: Files;
  readonly #clock: Clock;
  readonly #processes: Processes;
  #phase: Phase = 'new';
  #lock: Lock | undefined;
  #journal: Journal;
  #extras: readonly string[] = [];
  #queue: Pending[] = [];
  #writing: Promise<void> | undefined;
  /** True when the journal holds commits of which no picture was taken. */
  #unfolded = false;
  #foldDue = false;
  #folding: Promise<void> | undefined;
  #failedFolds = 0;
  #foldTimer: (() => void) | undefined;

  constructor(options: FileStoreOptions) {
    this.#folder = options.folder;
    this.#recover = options.recover;
    this.#picture = options.picture;
    this.#log = options.log;
    this.#files = options.files ?? diskFiles();
    this.#clock = options.clock ?? systemClock();
    this.#processes = options.processes ?? hostProcesses();
    this.#journal = new Journal(this.#files, this.#folder, 1);
  }

  async load(restore: (loaded: Loaded) => void): Promise<void> {
    this.#lock = await this.#take();
    try {
      while (!(await this.#read(restore)));
    } catch (error) {
      await this.#lock.release();
      this.#lock = undefined;
      if (error instanceof StoreError) throw error;
      throw new StoreError(`SERVICE_PERSIST_PATH ${this.#folder} cannot be read: ${reason(error)}`, { cause: error });
    }
    this.#phase = 'open';
    if (this.#unfolded) this.#scheduleFold();
  }

  commit(changes: readonly Change[], publish: () => void): Promise<void> {
    if (this.#phase !== 'open') return Promise.reject(new StoreError(`the store in ${this.#folder} is not open`));
    return new Promise((resolve, reject) => {
      this.#queue.push({ changes, publish, resolve, reject });
      this.#work();
    });
  }

  async close(): Promise<void> {
    const lock = this.#lock;
    if (this.#phase !== 'open' || !lock) return;
    this.#phase = 'closed';
    this.#foldTimer?.();
    while (this.#writing || this.#folding) {
      await this.#writing;
      await this.#folding;
    }
    try {
      if (this.#unfolded) await this.#fold(await this.#turnPage());
    } catch (error) {
      // Nothing is lost: the journal holds it, and the next start replays it.
      throw new StoreError(`${join(this.#folder, SNAPSHOT_NAME)} could not be written: ${reason(error)}`, {
        cause: error,
      });
    } finally {
      await this.#journal.close();
      await lock.release();
    }
  }

  async #take(): Promise<Lock> {
    try {
      await this.#files.makeFolder(this.#folder);
      return await takeLock({
        folder: this.#folder,
        files: this.#files,
        processes: this.#processes,
        clock: this.#clock,
        log: this.#log,
      });
    } catch (error) {
      if (error instanceof StoreError) throw error;
      throw new StoreError(`SERVICE_PERSIST_PATH ${this.#folder} is not writable: ${reason(error)}`, { cause: error });
    }
  }

  /** Reads the folder into the registry; false when damaged files were set aside and it has to be read anew. */
  async #read(restore: (loaded: Loaded) => void): Promise<boolean> {
    try {
      const { snapshot, journal, nextGeneration } = await readFolder(this.#files, this.#folder, this.#log);
      this.#hand(restore, { entries: snapshot.entries, journal });
      this.#extras = snapshot.extras;
      this.#journal = new Journal(this.#files, this.#folder, nextGeneration);
      this.#unfolded = journal.length > 0;
      return true;
    } catch (error) {
      if (!(error instanceof CorruptFileError)) throw error;
      const path = join(this.#folder, error.file);
      if (!this.#recover) {
        throw new StoreError(
          `${path} ${error.message}; repair it, or set SERVICE_PERSIST_RECOVER=rename to start without it`,
          { cause: error },
        );
      }
      this.#log.error(`${path} ${error.message}`);
      if ((await quarantine(this.#files, this.#folder, error.file, this.#clock.now(), this.#log)) === 0) {
        throw new StoreError(`${path} ${error.message}`, { cause: error });
      }
      return false;
    }
  }

  #hand(restore: (loaded: Loaded) => void, loaded: Loaded): void {
    try {
      restore(loaded);
    } catch (error) {
      throw new CorruptFileError(SNAPSHOT_NAME, `cannot be used: ${reason(error)}`, { cause: error });
    }
  }

  #work(): void {
    this.#writing ??= this.#write();
  }

  /** The one place where commits are written and generations turned, one step after the other. */
  async #write(): Promise<void> {
    // All who commit in this turn of the event loop share the first write.
    await Promise.resolve();
    while (this.#queue.length > 0 || (this.#foldDue && !this.#folding)) {
      if (this.#foldDue && !this.#folding) await this.#beginFold();
      if (this.#queue.length > 0) await this.#writeQueue();
    }
    this.#writing = undefined;
  }

  async #writeQueue(): Promise<void> {
    const batch = this.#queue;
    this.#queue = [];
    try {
      await this.#lock?.check();
      await this.#journal.append(batch.map(({ changes }) => changes));
    } catch (error) {
      const refusal =
        error instanceof StoreError
          ? error
          : new StoreError(
              `${join(this.#folder, journalName(this.#journal.generation))} could not be written: ${reason(error)}`,
              { cause: error },
            );
      const refused = [...batch, ...this.#queue];
      this.#queue = [];
      for (const { reject } of refused) reject(refusal);
      // Turning the page mends the journal, also when nobody commits any more.
      if (!this.#journal.clean) this.#scheduleFold();
      return;
    }
    this.#unfolded = true;
    this.#scheduleFold();
    // The whole batch first: the picture must not miss one of them because another's promise had a listener.
    for (const { publish, reject } of batch) {
      try {
        publish();
      } catch (error) {
        reject(error);
      }
    }
    for (const { resolve } of batch) resolve();
  }

  #scheduleFold(): void {
    if (this.#foldTimer || this.#foldDue || this.#phase === 'closed') return;
    const delay =
      this.#failedFolds === 0
        ? FOLD_AFTER_MS
        : Math.min(RETRY_MS.first * 2 ** (this.#failedFolds - 1), RETRY_MS.longest);
    this.#foldTimer = this.#clock.after(delay, () => {
      this.#foldTimer = undefined;
      this.#foldDue = true;
      this.#work();
    });
  }

  async #beginFold(): Promise<void> {
    this.#foldDue = false;
    const page = await this.#turnPage().catch((error: unknown) => this.#foldFailed(error));
    if (!page) return;
    this.#folding = this.#fold(page)
      .catch((error: unknown) => this.#foldFailed(error))
      .finally(() => {
        this.#folding = undefined;
        if (this.#foldDue) this.#work();
      });
  }

  /**
   * Ends the journal's generation and takes the picture of all that it and those before it hold. Only called while no
   * commit is under way, and nothing is awaited between the two.
   */
  async #turnPage(): Promise<Checkpoint> {
    // Left as it is, a refused commit at the end of the old generation would come back with a restart during the fold.
    await this.#journal.mend();
    const picture = this.#picture();
    const ended = this.#journal.used ? this.#journal : undefined;
    if (ended) this.#journal = new Journal(this.#files, this.#folder, ended.generation + 1);
    this.#unfolded = false;
    return { ended, generation: this.#journal.generation, picture };
  }

  async #fold({ ended, generation, picture }: Checkpoint): Promise<void> {
    await ended?.close();
    await replaceFile(
      this.#files,
      join(this.#folder, SNAPSHOT_NAME),
      snapshotSlices(picture, this.#extras, generation),
      async () => this.#lock?.check({ now: true }),
    );
    this.#failedFolds = 0;
    await removeJournals(this.#files, this.#folder, generation);
  }

  #foldFailed(error: unknown): undefined {
    this.#failedFolds++;
    this.#unfolded = true;
    this.#log.error(`${join(this.#folder, SNAPSHOT_NAME)} could not be written; commits stay in the journal`, {
      error,
    });
    this.#scheduleFold();
    return undefined;
  }
}

interface Checkpoint {
  ended: Journal | undefined;
  generation: number;
  picture: ReturnType<SnapshotSource>;
}

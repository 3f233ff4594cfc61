import { join } from 'node:path';
import { z } from 'zod';
import {
  ChecksummedLog,
  CorruptFileError,
  type Files,
  readIfThere,
  readSealedLines,
  reason,
  replaceFile,
} from '../../registry/store/journaled-file.ts';
import { StoreError, type StoreLog } from '../../registry/store/store.ts';

/** What is kept of one session: that it was ended, or what its client changed. */
export type Kept =
  | { readonly kind: 'ended'; readonly expires: number }
  | { readonly kind: 'changed'; readonly expires: number; readonly state: SessionState };

/** What a session's state may come to: so many subscriptions, and so many bytes of JSON altogether. */
export const STATE_LIMITS = { subscriptions: 1_000, bytes: 256 * 1024 } as const;

/** Why a state was not taken. */
export type Refusal = 'ended' | 'too_many_subscriptions' | 'too_large';

/** A session's state cannot be what a change made of it. */
export class SessionStateError extends Error {
  override readonly name = 'SessionStateError';
  readonly refusal: Refusal;

  constructor(refusal: Refusal, message: string) {
    super(message);
    this.refusal = refusal;
  }
}

/** The state of a session in which nothing was changed. */
const UNCHANGED: SessionState = Object.freeze({ subscriptions: Object.freeze([]) });

/** The state that is kept; that of a session in which nothing was changed when nothing is kept. */
export function stateOf(kept: Kept | undefined): SessionState {
  return kept?.kind === 'changed' ? kept.state : UNCHANGED;
}

/**
 * What is to be kept of a session once it was ended or changed; undefined for nothing. Throws
 * {@link SessionStateError}, or what `change` throws.
 */
export function keptAfter(
  before: Kept | undefined,
  expires: number,
  change: 'end' | ((before: SessionState) => SessionState),
): Kept | undefined {
  if (change === 'end') return before?.kind === 'ended' ? before : { kind: 'ended', expires };
  if (before?.kind === 'ended') throw new SessionStateError('ended', 'the session was ended');
  return keptState(expires, within(change(stateOf(before))));
}

/** What is to be kept for this state; undefined when that is nothing. */
export function keptState(expires: number, state: SessionState): Kept | undefined {
  const nothing = state.logLevel === undefined && state.subscriptions.length === 0;
  return nothing ? undefined : { kind: 'changed', expires, state };
}

/** The state with each uri once, if it is within the limits. What comes from outside is copied: it may change later. */
function within({ logLevel, subscriptions }: SessionState): SessionState {
  const once = [...forwardsByUri(subscriptions)].map(([uri, forward]): Subscription => ({ uri, forward }));
  if (once.length > STATE_LIMITS.subscriptions) {
    throw new SessionStateError(
      'too_many_subscriptions',
      `a session may have ${STATE_LIMITS.subscriptions} subscriptions; unsubscribe from one first`,
    );
  }
  const state: SessionState = logLevel === undefined ? { subscriptions: once } : { logLevel, subscriptions: once };
  if (Buffer.byteLength(JSON.stringify(state)) > STATE_LIMITS.bytes) {
    throw new SessionStateError(
      'too_large',
      `subscriptions and log level of a session may have ${STATE_LIMITS.bytes} bytes; unsubscribe from something first`,
    );
  }
  return state;
}

/** The forward of each uri; the last one where a uri is given twice. */
export function forwardsByUri(subscriptions: readonly Subscription[]): Map<string, string> {
  return new Map(subscriptions.map(({ uri, forward }) => [uri, forward]));
}

const end = z.object({ op: z.literal('end'), id: z.string(), expires: z.number() });
const change = z.object({
  op: z.literal('change'),
  id: z.string(),
  expires: z.number(),
  /** The new level, null for none; missing: as it was. */
  logLevel: z.string().nullable().optional(),
  /** Uri and forward, of uris that are new or at another forward. */
  subscribed: z.array(z.tuple([z.string(), z.string()])).optional(),
  unsubscribed: z.array(z.string()).optional(),
});

/** What a line of the journal holds: what happened to some sessions, in order. */
export const recordsSchema = z.array(z.discriminatedUnion('op', [end, change]));

/** What happened to one session: only what differs, so that its size is the change's and not the session's. */
export type SessionRecord = z.infer<typeof recordsSchema>[number];

/** What leads from one to the other; undefined when nothing differs. A session that was ended stays so. */
export function recordOf(
  id: string,
  expires: number,
  before: Kept | undefined,
  after: Kept | undefined,
): SessionRecord | undefined {
  if (before === after) return undefined;
  if (after?.kind === 'ended') return { op: 'end', id, expires };
  const [old, next] = [stateOf(before), stateOf(after)];
  const oldForwards = forwardsByUri(old.subscriptions);
  const nextForwards = forwardsByUri(next.subscriptions);
  const subscribed = [...nextForwards].filter(([uri, forward]) => oldForwards.get(uri) !== forward);
  const unsubscribed = [...oldForwards.keys()].filter((uri) => !nextForwards.has(uri));
  const levelChanged = old.logLevel !== next.logLevel;
  if (!levelChanged && subscribed.length === 0 && unsubscribed.length === 0) return undefined;
  return {
    op: 'change',
    id,
    expires,
    ...(levelChanged && { logLevel: next.logLevel ?? null }),
    ...(subscribed.length > 0 && { subscribed }),
    ...(unsubscribed.length > 0 && { unsubscribed }),
  };
}

interface Draft {
  expires: number;
  logLevel: string | undefined;
  readonly forwards: Map<string, string>;
}

/** What a snapshot holds, and then the records that came after it, put on top in order. */
export class Replay {
  readonly #kept: Map<string, Kept>;
  /** Sessions that records changed: a thousand records of one session do not copy its state a thousand times. */
  readonly #drafts = new Map<string, Draft>();

  constructor(snapshot: Map<string, Kept>) {
    this.#kept = snapshot;
  }

  apply(record: SessionRecord): void {
    const { id, expires } = record;
    if (record.op === 'end') {
      this.#drafts.delete(id);
      this.#kept.set(id, { kind: 'ended', expires });
      return;
    }
    const draft = this.#draft(id, expires);
    if (!draft) return;
    draft.expires = expires;
    if (record.logLevel !== undefined) draft.logLevel = record.logLevel ?? undefined;
    for (const uri of record.unsubscribed ?? []) draft.forwards.delete(uri);
    for (const [uri, forward] of record.subscribed ?? []) draft.forwards.set(uri, forward);
  }

  /** What is kept after all of it. */
  finish(): Map<string, Kept> {
    for (const [id, { expires, logLevel, forwards }] of this.#drafts) {
      const subscriptions = [...forwards].map(([uri, forward]) => ({ uri, forward }));
      const state: SessionState = logLevel === undefined ? { subscriptions } : { logLevel, subscriptions };
      const kept = keptState(expires, state);
      if (kept) this.#kept.set(id, kept);
      else this.#kept.delete(id);
    }
    return this.#kept;
  }

  /** Undefined for a session that was ended. */
  #draft(id: string, expires: number): Draft | undefined {
    const drafted = this.#drafts.get(id);
    if (drafted) return drafted;
    const kept = this.#kept.get(id);
    if (kept?.kind === 'ended') return undefined;
    const { logLevel, subscriptions } = stateOf(kept);
    const draft: Draft = { expires, logLevel, forwards: forwardsByUri(subscriptions) };
    this.#drafts.set(id, draft);
    return draft;
  }
}

/** The file name of a generation of the sessions' journal. */
export function journalName(generation: number): string {
  return `sessions.journal.${generation}`;
}

/** The generations that there are files of, in order. */
export async function generationsIn(files: Files, folder: string): Promise<number[]> {
  const generations: number[] = [];
  for (const name of await files.list(folder)) {
    const digits = /^sessions\.journal\.([1-9]\d{0,14})$/.exec(name)?.[1];
    if (digits !== undefined) generations.push(Number(digits));
  }
  return generations.sort((a, b) => a - b);
}

/** Removes the generations before this one. Throws the system error. */
export async function removeGenerations(files: Files, folder: string, before: number): Promise<void> {
  for (const generation of await generationsIn(files, folder)) {
    if (generation < before) await files.remove(join(folder, journalName(generation)));
  }
}

/** One generation of the journal under way. A line is what one write made durable: the records of all who waited. */
export class SessionJournal {
  readonly generation: number;
  readonly path: string;
  readonly #lines: ChecksummedLog;

  constructor(files: Files, folder: string, generation: number) {
    this.generation = generation;
    this.path = join(folder, journalName(generation));
    this.#lines = new ChecksummedLog(files, folder, this.path);
  }

  /** Bytes that are durable in it. */
  get length(): number {
    return this.#lines.length;
  }

  /** False while a refused write lies behind the durable bytes: a crash before {@link mend} could bring it back. */
  get clean(): boolean {
    return this.#lines.clean;
  }

  /** Makes the records durable, all of them or none. Throws the system error when the disk refuses. */
  append(records: readonly SessionRecord[]): Promise<void> {
    return this.#lines.append(lineOf(records));
  }

  /** Cuts off what a refused write left, durably. Throws the system error. */
  mend(): Promise<void> {
    return this.#lines.mend();
  }

  close(): Promise<void> {
    return this.#lines.close();
  }
}

function* lineOf(records: readonly SessionRecord[]): Generator<string> {
  let separator = '[';
  for (const record of records) {
    yield `${separator}${JSON.stringify(record)}`;
    separator = ',';
  }
  yield ']';
}

/**
 * Hands over the records of a generation's bytes, in order. Returns how many bytes of an unfinished write lie at its
 * end. Throws {@link CorruptFileError} when anything else is broken.
 */
export function readRecords(name: string, bytes: Buffer, take: (record: SessionRecord) => void): number {
  return readSealedLines(name, bytes, (text, at) => {
    for (const record of parse(name, text, at)) take(record);
  });
}

function parse(name: string, text: string, at: number): SessionRecord[] {
  try {
    return recordsSchema.parse(JSON.parse(text));
  } catch (error) {
    throw new CorruptFileError(name, `holds an unknown record at byte ${at}`, { cause: error });
  }
}

/** Beside `registry.json` (decisions 1.5). */
export const SNAPSHOT_NAME = 'sessions.json';

/** The version of its format that this service reads and writes. */
const VERSION = 1;
/** About so many characters make a slice of a snapshot under way; the event loop turns between slices. */
const SLICE_CHARACTERS = 128 * 1024;

const snapshotSchema = z.object({
  ended: z.record(z.string(), z.number()).default({}),
  changed: z
    .record(
      z.string(),
      z.object({
        expires: z.number(),
        logLevel: z.string().optional(),
        subscriptions: z.array(z.object({ uri: z.string(), forward: z.string() })).default([]),
      }),
    )
    .default({}),
  journal: z.int().positive().optional(),
});

/** What `sessions.json` holds. */
export interface Snapshot {
  kept: Map<string, Kept>;
  /** The first journal generation that it does not hold; undefined in a file from before there was a journal. */
  generation: number | undefined;
}

/** Reads the file's bytes. Throws {@link CorruptFileError}, or {@link StoreError} for a version of the future. */
export function readSnapshot(bytes: Buffer): Snapshot {
  let content: unknown;
  try {
    content = JSON.parse(bytes.toString());
  } catch (error) {
    throw new CorruptFileError(SNAPSHOT_NAME, `is not valid JSON: ${reason(error)}`, { cause: error });
  }
  checkVersion(content);
  const read = snapshotSchema.safeParse(content);
  if (!read.success) {
    const [issue] = read.error.issues;
    throw new CorruptFileError(SNAPSHOT_NAME, `is not what it should be: ${issue?.path.join('.')}: ${issue?.message}`);
  }
  const { ended, changed, journal } = read.data;
  const kept = new Map<string, Kept>();
  for (const [id, { expires, logLevel, subscriptions }] of Object.entries(changed)) {
    const state = keptState(expires, logLevel === undefined ? { subscriptions } : { logLevel, subscriptions });
    if (state) kept.set(id, state);
  }
  for (const [id, expires] of Object.entries(ended)) kept.set(id, { kind: 'ended', expires });
  return { kept, generation: journal };
}

/**
 * The text of `sessions.json` in slices small enough to be made one per turn of the event loop. `generation` is the
 * first journal generation that the sessions given do not hold.
 */
export function* snapshotSlices(sessions: readonly (readonly [string, Kept])[], generation: number): Generator<string> {
  let slice = `{\n  "version": ${VERSION}`;
  for (const kind of ['ended', 'changed'] as const) {
    slice += `,\n  "${kind}": {`;
    let separator = '';
    for (const [id, kept] of sessions) {
      if (kept.kind !== kind) continue;
      slice += `${separator}\n    ${JSON.stringify(id)}: ${textOf(kept)}`;
      separator = ',';
      if (slice.length < SLICE_CHARACTERS) continue;
      yield slice;
      slice = '';
    }
    slice += separator ? '\n  }' : '}';
  }
  yield `${slice},\n  "journal": ${generation}\n}\n`;
}

function textOf(kept: Kept): string {
  if (kept.kind === 'ended') return String(kept.expires);
  const { logLevel, subscriptions } = stateOf(kept);
  const subscribed = subscriptions.length > 0 ? subscriptions : undefined;
  const text = JSON.stringify({ expires: kept.expires, logLevel, subscriptions: subscribed }, null, 2);
  return text.replaceAll('\n', '\n    ');
}

function checkVersion(content: unknown): void {
  const read = z.object({ version: z.number() }).safeParse(content);
  if (!read.success) throw new CorruptFileError(SNAPSHOT_NAME, 'is not a JSON object with a version');
  const { version } = read.data;
  if (version > VERSION) {
    throw new StoreError(
      `${SNAPSHOT_NAME} has version ${version} and this service reads version ${VERSION}: start the release that wrote it`,
    );
  }
  if (version !== VERSION) throw new CorruptFileError(SNAPSHOT_NAME, `has an unknown version: ${version}`);
}

/** What a folder held. */
export interface Found {
  kept: Map<string, Kept>;
  /** Bytes of `sessions.json`. */
  snapshotBytes: number;
  /** True when there are journals, whose content is not in `sessions.json` yet. */
  unfolded: boolean;
  /** A generation that no file carries yet and that follows on all that do. */
  nextGeneration: number;
}

/** Reads `sessions.json` and the journals that it does not hold. Throws {@link StoreError}. */
export async function readKept(files: Files, folder: string, log: StoreLog): Promise<Found> {
  try {
    return await read(files, folder, log);
  } catch (error) {
    if (error instanceof StoreError) throw error;
    if (!(error instanceof CorruptFileError)) {
      throw new StoreError(`the sessions kept in ${folder} cannot be read: ${reason(error)}`, { cause: error });
    }
    const path = join(folder, error.file);
    throw new StoreError(
      `${path} is damaged: it ${error.message}; repair it, or remove it to go on without the ends and changes of sessions in it`,
      { cause: error },
    );
  }
}

async function read(files: Files, folder: string, log: StoreLog): Promise<Found> {
  await files.remove(join(folder, `${SNAPSHOT_NAME}.tmp`));
  // What a killed process left may be in memory alone: it has to be on disk before anything builds on it.
  await files.syncFolder(folder);
  const bytes = await readIfThere(files, join(folder, SNAPSHOT_NAME));
  const snapshot: Snapshot = bytes ? readSnapshot(bytes) : { kept: new Map(), generation: undefined };
  const generations = await generationsIn(files, folder);
  const first = snapshot.generation ?? 1;
  const replay = new Replay(snapshot.kept);
  for (const generation of generations) {
    const name = journalName(generation);
    const path = join(folder, name);
    if (generation < first) {
      await files.remove(path);
      continue;
    }
    await files.sync(path);
    const torn = readRecords(name, await files.read(path), (record) => replay.apply(record));
    if (torn > 0) log.warn(`an unfinished write at the end of ${name} was dropped`, { folder, bytes: torn });
  }
  const last = generations.at(-1) ?? 0;
  return {
    kept: replay.finish(),
    snapshotBytes: bytes?.length ?? 0,
    unfolded: last >= first,
    nextGeneration: Math.max(first, last + 1),
  };
}

/** What the states of all sessions may come to, in characters: sessions cost a client nothing, and live for days. */
const MAX_CHARACTERS = 64 * 1024 * 1024;

/** What is kept of sessions, by id. */
export class SessionTable {
  readonly #kept: Map<string, Kept>;
  readonly #maxCharacters: number;
  #characters = 0;

  /** `maxCharacters` is for tests. */
  constructor(kept: Map<string, Kept> = new Map(), maxCharacters: number = MAX_CHARACTERS) {
    this.#kept = kept;
    this.#maxCharacters = maxCharacters;
    for (const one of kept.values()) this.#characters += sizeOf(one);
  }

  get size(): number {
    return this.#kept.size;
  }

  get(id: string): Kept | undefined {
    return this.#kept.get(id);
  }

  ended(id: string): boolean {
    return this.#kept.get(id)?.kind === 'ended';
  }

  state(id: string): SessionState | undefined {
    const kept = this.#kept.get(id);
    return kept?.kind === 'changed' ? kept.state : undefined;
  }

  /** Throws {@link SessionStateError} when there is no room for a session's state to grow from `before` to `after`. */
  checkRoom(before: Kept | undefined, after: Kept | undefined): void {
    const grown = sizeOf(after) - sizeOf(before);
    if (grown <= 0 || this.#characters + grown <= this.#maxCharacters) return;
    throw new SessionStateError('too_large', 'the sessions of all clients hold as much as they may; try again later');
  }

  /** Replaces what is kept of a session; undefined for nothing. */
  set(id: string, kept: Kept | undefined): void {
    this.#characters += sizeOf(kept) - sizeOf(this.#kept.get(id));
    if (kept) this.#kept.set(id, kept);
    else this.#kept.delete(id);
  }

  /** Takes out what nobody can ask for any more. `now` in epoch milliseconds. */
  forgetExpired(now: number): void {
    for (const [id, { expires }] of this.#kept) if (expires <= now) this.set(id, undefined);
  }

  /** All of it, as it is now. */
  entries(): [string, Kept][] {
    return [...this.#kept];
  }
}

/** Characters of the subscriptions that are kept of a session. */
function sizeOf(kept: Kept | undefined): number {
  if (kept?.kind !== 'changed') return 0;
  return kept.state.subscriptions.reduce((sum, { uri, forward }) => sum + uri.length + forward.length, 0);
}

/** A journal shorter than this is not worth a fold. */
const FOLD_FROM_BYTES = 256 * 1024;

/** What a {@link FileSessionStore} is told. */
export interface FolderOptions {
  readonly folder: string;
  readonly files: Files;
  readonly log: StoreLog;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** The least length of a journal that is folded before the end. Default: 256 KiB. */
  readonly foldFromBytes?: number;
}

interface Pending {
  readonly id: string;
  readonly expires: number;
  readonly change: 'end' | ((before: SessionState) => SessionState);
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** What a fold puts into the snapshot, and the generation that follows on it. */
interface Checkpoint {
  readonly ended: SessionJournal | undefined;
  readonly sessions: [string, Kept][];
  readonly generation: number;
}

/**
 * Sessions kept in `sessions.json` and a journal beside it, in which an end or a change is durable at once: a line for
 * all who wait, with only what differs, so that a change costs the same however many sessions are kept.
 *
 * The journal comes in generations, as the registry's does, and is folded into `sessions.json` at start, at the end and
 * whenever it has become as long as that file: what folding costs stays in proportion to the changes, and what is on
 * disk in proportion to what is alive. A fold lets changes go on in the next generation and takes its picture in the
 * same instant; older generations are removed once the picture is in place.
 */
export class FileSessionStore implements SessionStore {
  readonly #folder: string;
  readonly #files: Files;
  readonly #log: StoreLog;
  readonly #now: () => number;
  readonly #foldFromBytes: number;
  readonly #table: SessionTable;
  #journal: SessionJournal;
  #snapshotBytes: number;
  #open = true;
  #queue: Pending[] = [];
  #writing: Promise<void> | undefined;
  /** True when journals hold something that `sessions.json` does not, or are not gone although it does. */
  #unfolded: boolean;
  #folding: Promise<void> | undefined;

  /** Reads the folder. Throws {@link StoreError}. */
  static async open(options: FolderOptions): Promise<FileSessionStore> {
    const { folder, files, log } = options;
    const keeper = new FileSessionStore(options, await readKept(files, folder, log));
    // Each run begins a generation: without this, a service that is killed again and again would gather them.
    if (keeper.#unfolded) await keeper.#foldNow();
    return keeper;
  }

  private constructor(options: FolderOptions, found: Found) {
    this.#folder = options.folder;
    this.#files = options.files;
    this.#log = options.log;
    this.#now = options.now;
    this.#foldFromBytes = options.foldFromBytes ?? FOLD_FROM_BYTES;
    this.#table = new SessionTable(found.kept);
    this.#table.forgetExpired(this.#now());
    this.#journal = new SessionJournal(this.#files, this.#folder, found.nextGeneration);
    this.#snapshotBytes = found.snapshotBytes;
    this.#unfolded = found.unfolded;
  }

  ended(id: string): boolean {
    return this.#table.ended(id);
  }

  state(id: string): SessionState | undefined {
    return this.#table.state(id);
  }

  end(id: string, expires: number): Promise<void> {
    return this.#put(id, expires, 'end');
  }

  change(id: string, expires: number, change: (before: SessionState) => SessionState): Promise<void> {
    return this.#put(id, expires, change);
  }

  async close(): Promise<void> {
    if (!this.#open) return;
    this.#open = false;
    await this.#writing;
    await this.#folding;
    try {
      await this.#journal.mend();
      if (this.#unfolded) await this.#fold(this.#turnPage());
    } catch (error) {
      // Nothing is lost: the journal holds it, and the next start replays it.
      throw new StoreError(`${this.#snapshotPath()} could not be written: ${reason(error)}`, { cause: error });
    } finally {
      await this.#journal.close();
    }
  }

  #put(id: string, expires: number, change: Pending['change']): Promise<void> {
    if (!this.#open) return Promise.reject(new StoreError(`the sessions in ${this.#folder} are not kept any more`));
    return new Promise((resolve, reject) => {
      this.#queue.push({ id, expires, change, resolve, reject });
      this.#writing ??= this.#write();
    });
  }

  /** The one place where records are written and folds begun, one step after the other. */
  async #write(): Promise<void> {
    // All who come in this turn of the event loop share the first write.
    await Promise.resolve();
    while (this.#queue.length > 0) {
      await this.#writeQueue();
      if (!this.#folding && this.#worthFolding()) this.#foldInBackground();
    }
    this.#writing = undefined;
  }

  #worthFolding(): boolean {
    // What was refused and could not be cut off yet would come back with a restart during the fold.
    return this.#journal.clean && this.#journal.length >= Math.max(this.#foldFromBytes, this.#snapshotBytes);
  }

  async #writeQueue(): Promise<void> {
    const { records, after, waiting } = this.#draft(this.#queue.splice(0));
    try {
      if (records.length > 0) {
        await this.#journal.append(records);
        this.#unfolded = true;
      }
    } catch (error) {
      const refusal = new StoreError(`${this.#journal.path} could not be written: ${reason(error)}`, { cause: error });
      for (const { reject } of waiting) reject(refusal);
      return;
    }
    for (const [id, kept] of after) this.#table.set(id, kept);
    for (const { resolve } of waiting) resolve();
  }

  /** Carries out what waits, each on what those before it left, without showing it to anybody yet. */
  #draft(batch: readonly Pending[]): {
    records: SessionRecord[];
    after: Map<string, Kept | undefined>;
    waiting: Pending[];
  } {
    const records: SessionRecord[] = [];
    const after = new Map<string, Kept | undefined>();
    const waiting: Pending[] = [];
    for (const pending of batch) {
      const { id, expires, change } = pending;
      const before = after.has(id) ? after.get(id) : this.#table.get(id);
      try {
        const kept = keptAfter(before, expires, change);
        this.#table.checkRoom(before, kept);
        const record = recordOf(id, expires, before, kept);
        if (record) {
          records.push(record);
          after.set(id, kept);
        }
        waiting.push(pending);
      } catch (error) {
        pending.reject(error);
      }
    }
    return { records, after, waiting };
  }

  #foldInBackground(): void {
    this.#folding = this.#foldNow().finally(() => {
      this.#folding = undefined;
    });
  }

  /** Folds; a failure costs nothing but room: the journals stay, and the next fold takes them too. */
  async #foldNow(): Promise<void> {
    try {
      await this.#fold(this.#turnPage());
    } catch (error) {
      this.#unfolded = true;
      this.#log.error(`${this.#snapshotPath()} could not be written; changes stay in the journal`, { error });
    }
  }

  /**
   * Ends the journal's generation and takes the picture of all that it and those before it hold. Only called while the
   * journal is clean and no write is under way.
   */
  #turnPage(): Checkpoint {
    this.#table.forgetExpired(this.#now());
    const ended = this.#journal.length > 0 ? this.#journal : undefined;
    if (ended) this.#journal = new SessionJournal(this.#files, this.#folder, ended.generation + 1);
    this.#unfolded = false;
    return { ended, sessions: this.#table.entries(), generation: this.#journal.generation };
  }

  async #fold({ ended, sessions, generation }: Checkpoint): Promise<void> {
    await ended?.close();
    let written = 0;
    const counted = function* (): Generator<string> {
      for (const slice of snapshotSlices(sessions, generation)) {
        written += slice.length;
        yield slice;
      }
    };
    await replaceFile(this.#files, this.#snapshotPath(), counted());
    this.#snapshotBytes = written;
    await removeGenerations(this.#files, this.#folder, generation);
  }

  #snapshotPath(): string {
    return join(this.#folder, SNAPSHOT_NAME);
  }
}

/** What a client changed during its session (mcp 3). */
export interface SessionState {
  /** Least level of log messages, as the client set it; undefined: not set. */
  readonly logLevel?: string | undefined;
  /** Resources subscribed to, each uri once and in no particular order. */
  readonly subscriptions: readonly Subscription[];
}

/** A resource subscribed to, and the forward that it was subscribed at. */
export interface Subscription {
  readonly uri: string;
  readonly forward: string;
}

/**
 * What has to be known of sessions besides what their ids carry: which were ended, and what clients changed during the
 * others. All of it is kept until the session would have expired; `expires` is that time in epoch milliseconds, the same
 * in every call for one session.
 */
export interface SessionStore {
  /** True when the session was ended for good. */
  ended(id: string): boolean;

  /**
   * Ends a session for good; resolves when no restart can bring it back, and drops its state. Rejects with `StoreError`
   * when that could not be kept: the session then goes on as it was.
   */
  end(id: string, expires: number): Promise<void>;

  /** What was changed; undefined when nothing was. */
  state(id: string): SessionState | undefined;

  /**
   * Replaces the state by what `change` makes of it; resolves when that is durable, and {@link SessionStore.state} shows
   * it from then on. Changes of one session are applied in the order of the calls, each on what those before it left:
   * `change` is called once, but not at once.
   *
   * Rejects, with the state as it was before: with `SessionStateError` when the session was ended or the new state is
   * larger than a session's may be, with `StoreError` when it could not be kept, with whatever `change` throws.
   */
  change(id: string, expires: number, change: (before: SessionState) => SessionState): Promise<void>;

  /** Waits for what is under way and folds it into `sessions.json`. Later changes are refused. Throws `StoreError`. */
  close(): Promise<void>;
}

/** Sessions of a process that keeps nothing. */
export function memorySessionStore(now: () => number = Date.now): SessionStore {
  const table = new SessionTable();
  /** Writes until the next look: after so many, looking through all sessions costs no more than they did. */
  let untilLook = 0;
  const set = (id: string, kept: Kept | undefined): void => {
    table.set(id, kept);
    if (--untilLook > 0) return;
    table.forgetExpired(now());
    untilLook = table.size;
  };
  return {
    ended: (id) => table.ended(id),
    state: (id) => table.state(id),
    async end(id, expires) {
      set(id, keptAfter(table.get(id), expires, 'end'));
    },
    async change(id, expires, change) {
      const before = table.get(id);
      const after = keptAfter(before, expires, change);
      table.checkRoom(before, after);
      set(id, after);
    },
    async close() {},
  };
}

/**
 * Sessions kept in the folder, which has to exist and to be this process's alone: `sessions.json` and, beside it, a
 * journal of what changed since it was written (see {@link FileSessionStore}). Throws `StoreError` when a file there is
 * damaged or cannot be read.
 */
export function fileSessionStore(
  folder: string,
  files: Files,
  log: StoreLog,
  now: () => number = Date.now,
): Promise<SessionStore> {
  return FileSessionStore.open({ folder, files, log, now });
}

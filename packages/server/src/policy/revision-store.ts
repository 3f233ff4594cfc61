import { isUtf8 } from 'node:buffer';
import { join } from 'node:path';
import { evaluatorRevisionContent, validate } from '@sluice/contract';
import type { Emitter } from '@sluice/protocol/emitter';
import { parseLossless } from '@sluice/protocol/json/parse';
import { applyEdits, elements, type Member, members } from '@sluice/protocol/json/text';
import { z } from 'zod';
import { type Files, ifExists, replaceFile } from '../registry/store/files.ts';
import { CorruptFileError, quarantine, START_WITHOUT } from '../registry/store/journaled-file.ts';
import { type StoreLog, toStoreError } from '../registry/store/store.ts';
import type { SharedComponents } from './action-loader.ts';
import { enforceLimits, NO_REVISIONS, type Revisions, serializeRevision } from './revisions.ts';

const id = z.number().int().positive();

const fileContent = z
  .object({ revisions: z.array(evaluatorRevisionContent), active_id: id.nullable(), next_id: id })
  .superRefine(({ revisions, active_id, next_id }, context) => {
    const addIssue = (member: string, message: string) => context.addIssue({ code: 'custom', path: [member], message });
    revisions.forEach((revision, index) => {
      if (revision.id <= (revisions[index - 1]?.id ?? 0)) addIssue('revisions', 'must have ascending ids');
      if ((revision.status === 'active') !== (revision.id === active_id)) {
        addIssue('revisions', 'must have active_id as the only active id');
      }
    });
    if (active_id !== null && !revisions.some((revision) => revision.id === active_id)) {
      addIssue('active_id', 'must be the id of a revision');
    }
    if (next_id <= (revisions.at(-1)?.id ?? 0)) addIssue('next_id', 'must be above the id of every revision');
  });

/**
 * Parses the content of `evaluator-revisions.json`. Throws {@link CorruptFileError} with the name `file`.
 *
 * Versions without a limit of bytes have written files that do not fit into memory as objects. So the evaluators are
 * removed before the rest is parsed, and those within the limits are parsed one revision after the other.
 */
export function parseRevisions(file: string, bytes: Buffer): Revisions {
  if (!isUtf8(bytes)) throw new CorruptFileError(file, 'is not valid UTF-8');
  const text = bytes.toString();
  const evaluators = parseOrThrow(file, () => findEvaluators(text));
  const rest = applyEdits(
    text,
    evaluators.flatMap((member) => (member ? [{ ...member, text: '[]' }] : [])),
  );
  const { revisions, active_id, next_id } = parseAs(file, fileContent, rest, []);
  const list = revisions.map(({ evaluators: _none, ...metadata }, index) => {
    const member = evaluators[index];
    return { ...metadata, evaluatorsJson: text.slice(member?.start, member?.end) };
  });
  const limited = enforceLimits({ list, activeId: active_id ?? undefined, nextId: next_id });
  return {
    ...limited,
    list: limited.list.map((revision) => {
      const path = ['revisions', list.indexOf(revision), 'evaluators'];
      const schema = evaluatorRevisionContent.shape.evaluators;
      // Serialized again: a slice of the text would retain all of it.
      return { ...revision, evaluatorsJson: JSON.stringify(parseAs(file, schema, revision.evaluatorsJson, path)) };
    }),
  };
}

/** Returns the position of the evaluators of each revision; undefined if it has none. */
function findEvaluators(text: string): (Member | undefined)[] {
  const revisions = lastMember(text, 'revisions', 0);
  if (!revisions) return [];
  return [...elements(text, revisions.start)].map(({ start }) => lastMember(text, 'evaluators', start));
}

/** The last of duplicates, which is the one that a parser returns. */
function lastMember(text: string, name: string, start: number): Member | undefined {
  return [...members(text, start)].findLast(({ key }) => key === name);
}

function parseAs<T extends z.ZodType>(
  file: string,
  schema: T,
  text: string,
  path: readonly (string | number)[],
): z.output<T> {
  const value = parseOrThrow(file, () => parseLossless(text));
  const result = validate(schema, value);
  if ('value' in result) return result.value;
  const [first] = result.issues;
  const member = [...path, first?.path].filter((part) => part !== '').join('.');
  throw new CorruptFileError(file, `is not valid: ${member} ${first?.message}`);
}

function parseOrThrow<T>(file: string, parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    // Without the message of the parser, which quotes the file.
    throw new CorruptFileError(file, 'is not valid JSON', { cause: error });
  }
}

/** In the folder of `registry.json`. */
const FILE = 'evaluator-revisions.json';

/** Revisions of another replica. */
export interface NewerRevisions {
  readonly revisions: Revisions;
  /** Called by subscribers: this replica confirms the revisions once the promise, which never rejects, has resolved. */
  waitUntil(inEffect: Promise<unknown>): void;
}

/** Persists revisions. */
export interface RevisionStore {
  /** Called once, before `save`. Throws {@link StoreError}. */
  load(): Promise<Revisions>;
  /**
   * Resolves when the revisions are durable. Throws {@link StoreError}: the previous ones remain stored, and
   * {@link OutdatedRevisionsError}. `components`: checksums of the actions of the active revision by path, for other replicas.
   */
  save(revisions: Revisions, components?: ReadonlyMap<string, string>): Promise<void>;
  /** See `SharedLog.confirm`; undefined without other replicas. */
  confirm?(): Promise<readonly string[]>;
  /** What replicas share of actions; undefined for a single one. */
  readonly actions?: SharedActions;
  /** Another replica has changed the revisions; undefined without other replicas. */
  readonly newer?: Emitter<NewerRevisions>;
}

/** Actions of revisions that replicas share. */
export interface SharedActions extends SharedComponents {
  /** Checksums of the components of a revision, by path; undefined if it was never loaded. */
  of(revision: number): ReadonlyMap<string, string> | undefined;
}

/** Another replica has stored revisions since these were read: make the change again on its ones. */
export class OutdatedRevisionsError extends Error {
  override readonly name = 'OutdatedRevisionsError';
  readonly revisions: Revisions;

  constructor(revisions: Revisions) {
    super('the evaluators were changed meanwhile');
    this.revisions = revisions;
  }
}

/** Returns a store that persists nothing. */
export function memoryRevisionStore(): RevisionStore {
  return { load: async () => NO_REVISIONS, save: async () => {} };
}

/** Options of {@link FileRevisionStore}. */
export interface FileRevisionStoreOptions {
  /** SERVICE_PERSIST_PATH; must exist and be locked by this process. */
  readonly folder: string;
  /** SERVICE_PERSIST_RECOVER=rename: a corrupt file is renamed instead of aborting startup. */
  readonly recover: boolean;
  readonly files: Files;
  readonly log: StoreLog;
  /** Returns epoch milliseconds. */
  readonly now: () => number;
}

/** Stores revisions in `evaluator-revisions.json`. */
export class FileRevisionStore implements RevisionStore {
  readonly #options: FileRevisionStoreOptions;
  readonly #path: string;
  #saved = NO_REVISIONS;

  constructor(options: FileRevisionStoreOptions) {
    this.#options = options;
    this.#path = join(options.folder, FILE);
  }

  async load(): Promise<Revisions> {
    try {
      const bytes = await ifExists(this.#options.files.read(this.#path));
      if (bytes) this.#saved = parseRevisions(FILE, bytes);
    } catch (error) {
      if (!(error instanceof CorruptFileError)) throw toStoreError(`${this.#path} cannot be read`, error);
      const { folder, recover, now } = this.#options;
      if (!recover) throw error.asStoreError(folder, START_WITHOUT);
      await quarantine(this.#options, [FILE], now()).catch((cause: unknown) => {
        throw toStoreError(`${this.#path} is corrupt and could not be renamed`, cause);
      });
    }
    return this.#saved;
  }

  async save(revisions: Revisions): Promise<void> {
    try {
      await this.#write(revisions);
    } catch (error) {
      // If only the sync of the folder failed, the new content is in place and a restart would load rejected revisions.
      await this.#write(this.#saved).catch(() => {});
      throw toStoreError(`${this.#path} could not be written`, error);
    }
    this.#saved = revisions;
  }

  #write(revisions: Revisions): Promise<number> {
    return replaceFile(this.#options.files, this.#path, revisionSlices(revisions));
  }
}

/** Yields the text of the file, one line per revision: indented schemas would be mostly whitespace. */
export function* revisionSlices({ list, activeId, nextId }: Revisions): Generator<string> {
  yield '{\n  "revisions": [';
  for (const [index, revision] of list.entries()) yield `${index === 0 ? '' : ','}\n    ${serializeRevision(revision)}`;
  yield `\n  ],\n  "active_id": ${activeId ?? null},\n  "next_id": ${nextId}\n}\n`;
}

import { isUtf8 } from 'node:buffer';
import { join } from 'node:path';
import { evaluatorRevisionContent, validate } from '@sluice/contract';
import { applyEdits } from '@sluice/protocol/json/edit';
import { parseLossless } from '@sluice/protocol/json/parse';
import { elements, type Member, members } from '@sluice/protocol/json/scan';
import { z } from 'zod';
import { CorruptFileError } from '../registry/store/journaled-file.ts';
import { type Files, readIfExists, errorReason, replaceFile } from '../registry/store/files.ts';
import { StoreError, type StoreLog } from '../registry/store/store.ts';
import { NO_REVISIONS, type Revisions, revisionJson, withinLimits } from './revisions.ts';

const id = z.number().int().positive();

const fileContent = z
  .object({ revisions: z.array(evaluatorRevisionContent), active_id: id.nullable(), next_id: id })
  .superRefine(({ revisions, active_id, next_id }, context) => {
    const refuse = (member: string, message: string) => context.addIssue({ code: 'custom', path: [member], message });
    revisions.forEach((revision, index) => {
      if (revision.id <= (revisions[index - 1]?.id ?? 0)) refuse('revisions', 'must have ids that rise');
      if ((revision.status === 'active') !== (revision.id === active_id)) {
        refuse('revisions', 'must have active_id as the one that is active');
      }
    });
    if (active_id !== null && !revisions.some((revision) => revision.id === active_id)) {
      refuse('active_id', 'must be the id of a revision');
    }
    if (next_id <= (revisions.at(-1)?.id ?? 0)) refuse('next_id', 'must be above the id of every revision');
  });

/**
 * Reads what `evaluator-revisions.json` holds. Throws {@link CorruptFileError}, which names `file`.
 *
 * Versions that had no limit of bytes wrote files that as objects would not fit into the memory. So the evaluators are
 * cut out before the rest is parsed, and those of the revisions that are kept are parsed one revision after the other.
 */
export function readRevisions(file: string, bytes: Buffer): Revisions {
  if (!isUtf8(bytes)) throw new CorruptFileError(file, 'is not valid UTF-8');
  const text = bytes.toString();
  const places = parsed(file, () => evaluatorsIn(text));
  const rest = applyEdits(
    text,
    places.flatMap((place) => (place ? [{ ...place, text: '[]' }] : [])),
  );
  const { revisions, active_id, next_id } = checked(file, fileContent, rest, []);
  const list = revisions.map(({ evaluators: _none, ...metadata }, index) => {
    const place = places[index];
    return { ...metadata, evaluatorsJson: text.slice(place?.start, place?.end) };
  });
  const kept = withinLimits({ list, activeId: active_id ?? undefined, nextId: next_id });
  return {
    ...kept,
    list: kept.list.map((revision) => {
      const path = ['revisions', list.indexOf(revision), 'evaluators'];
      const { evaluators } = evaluatorRevisionContent.shape;
      // Written anew: a part of the text would keep all of it in memory.
      return { ...revision, evaluatorsJson: JSON.stringify(checked(file, evaluators, revision.evaluatorsJson, path)) };
    }),
  };
}

/** Where the evaluators of each revision stand; undefined for one that has none. */
function evaluatorsIn(text: string): (Member | undefined)[] {
  const revisions = lastMember(text, 'revisions', 0);
  if (!revisions) return [];
  return [...elements(text, revisions.start)].map(({ start }) => lastMember(text, 'evaluators', start));
}

/** Of duplicates the last, which is the one that a parser keeps. */
function lastMember(text: string, name: string, start: number): Member | undefined {
  return [...members(text, start)].findLast(({ key }) => key === name);
}

function checked<T extends z.ZodType>(
  file: string,
  schema: T,
  text: string,
  path: readonly (string | number)[],
): z.output<T> {
  const value = parsed(file, () => parseLossless(text));
  const result = validate(schema, value);
  if ('value' in result) return result.value;
  const [first] = result.issues;
  const place = [...path, first?.path].filter((part) => part !== '').join('.');
  throw new CorruptFileError(file, `is damaged: ${place} ${first?.message}`);
}

function parsed<T>(file: string, parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    // The parser repeats text of the file.
    throw new CorruptFileError(file, 'is not valid JSON', { cause: error });
  }
}

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
      const bytes = await readIfExists(this.#options.files, this.#path);
      if (bytes) this.#saved = readRevisions(FILE, bytes);
    } catch (error) {
      if (!(error instanceof CorruptFileError))
        throw new StoreError(`${this.#path} cannot be read: ${errorReason(error)}`, { cause: error });
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
      throw new StoreError(`${this.#path} could not be written: ${errorReason(error)}`, { cause: error });
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
      throw new StoreError(`${this.#path} is damaged and could not be renamed: ${errorReason(error)}`, { cause: error });
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

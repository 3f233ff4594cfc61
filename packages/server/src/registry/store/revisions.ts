import { createHash } from 'node:crypto';
import type { RevisionMetadata } from '@sluice/contract';
import { isJsonObject, parseLossless } from '@sluice/protocol/json/parse';
import type { z } from 'zod';
import { OperationError } from '../operation-error.ts';

/** Settings that are replaced as a whole, and whose revisions are stored. */
export interface RevisionKind<Content> {
  /** What they are, for messages: `evaluators`. */
  readonly what: string;
  /** Section of the records: one for each revision, and one with the active one. */
  readonly section: string;
  /** Member of a revision with its content. */
  readonly member: string;
  readonly schema: z.ZodType<Content>;
  /**
   * For content that names components, which may be missing. Section with the checksums of those that each revision was loaded
   * with, by the id of the revision; a revision has the names of what was skipped.
   */
  readonly components?: string;
  /** Whether the service does not run without them: they are never set aside, not even those that cannot be read. */
  readonly isRequired?: true;
}

/**
 * A submitted revision. Its content is JSON text: as objects it may take twenty times the memory, and most revisions are never read
 * again.
 */
export interface Revision extends Readonly<RevisionMetadata> {
  /** Without whitespace, as in responses and in records. */
  readonly contentJson: string;
  /** Names of the parts that could not be loaded. */
  readonly skipped: readonly string[];
}

/** The content of a revision. */
export type RevisionContent = Pick<Revision, 'contentJson' | 'checksum'>;

/** Serializes content for a revision. */
export function serializeContent(content: unknown): RevisionContent {
  return { contentJson: JSON.stringify(content), checksum: checksumOf(content) };
}

/** Parses the content of a revision. Throws for invalid text. */
export function parseContent<Content>(
  { schema }: RevisionKind<Content>,
  { contentJson }: Pick<Revision, 'contentJson'>,
): Content {
  return schema.parse(parseLossless(contentJson));
}

/** Returns the checksum of content: 16 hex digits of SHA-256 over its canonical JSON. */
function checksumOf(content: unknown): string {
  return createHash('sha256').update(canonicalJson(content)).digest('hex').slice(0, 16);
}

/** JSON text that does not depend on the order of members. Numbers are unchanged. */
function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  if (!isJsonObject(value)) return JSON.stringify(value);
  const members = Object.keys(value).toSorted();
  return `{${members.map((member) => `${JSON.stringify(member)}:${canonicalJson(value[member])}`).join(',')}}`;
}

/** Serializes the metadata of a revision, as in the list of revisions. */
export function serializeMetadata({ contentJson: _content, skipped: _skipped, ...metadata }: Revision): string {
  return JSON.stringify(metadata);
}

/** Serializes a whole revision, in one line. */
export function serializeRevision(
  revision: Revision,
  { member, components }: Pick<RevisionKind<unknown>, 'member' | 'components'>,
): string {
  const { contentJson, skipped } = revision;
  const metadata = serializeMetadata(revision).slice(0, -1);
  const parts = components === undefined ? '' : `,"skipped":${JSON.stringify(skipped)}`;
  return `${metadata},"${member}":${contentJson}${parts}}`;
}

/** Size of a serialized revision in bytes, without two member names. */
function revisionBytes(revision: Revision): number {
  const texts = [serializeMetadata(revision), revision.contentJson, JSON.stringify(revision.skipped)];
  return texts.reduce((bytes, text) => bytes + Buffer.byteLength(text), 0);
}

/** Maximum number of stored revisions. */
const MAX_REVISIONS = 50;

/** Maximum size of all stored revisions: a single one may be as large as a request body. */
const MAX_REVISION_BYTES = 16 * 1024 * 1024;

/** Stored revisions. Immutable. */
export interface Revisions {
  /** Oldest first. */
  readonly list: readonly Revision[];
  /** Undefined if none is active. */
  readonly activeId: number | undefined;
  readonly nextId: number;
}

/** State before the first submission. */
export const NO_REVISIONS: Revisions = { list: [], activeId: undefined, nextId: 1 };

/** A submitted revision. */
export interface RevisionInput {
  readonly content: RevisionContent;
  readonly origin: Revision['origin'];
  readonly actor: string | undefined;
  /** ISO 8601. */
  readonly at: string;
}

/** Returns the active revision. */
export function activeRevision({ list, activeId }: Revisions): Revision | undefined {
  return list.find(({ id }) => id === activeId);
}

/** Returns the latest revision that came from the configuration. */
export function latestStartupRevision({ list }: Pick<Revisions, 'list'>): Revision | undefined {
  return list.findLast(({ origin }) => origin === 'startup');
}

/** Adds a revision and makes it active. `skipped`: names of parts that could not be loaded. */
export function addActive(revisions: Revisions, input: RevisionInput, skipped: readonly string[] = []): Revisions {
  const list = revisions.list.map((each) =>
    each.status === 'active' ? { ...each, status: 'superseded' as const } : each,
  );
  return addRevision({ ...revisions, list, activeId: revisions.nextId }, input, { status: 'active', skipped });
}

/** Adds a rejected revision; the active one remains active. */
export function addRejected(revisions: Revisions, input: RevisionInput, reason: string): Revisions {
  return addRevision(revisions, input, { status: 'rejected', reason });
}

function addRevision(
  { list, activeId, nextId }: Revisions,
  { content, origin, actor, at }: RevisionInput,
  { status, skipped = [], reason }: { status: Revision['status']; skipped?: readonly string[]; reason?: string },
): Revisions {
  const revision: Revision = {
    id: nextId,
    created_at: at,
    ...(status === 'active' && { activated_at: at }),
    status,
    checksum: content.checksum,
    origin,
    ...(actor !== undefined && { actor }),
    ...(reason !== undefined && { failure_reason: reason }),
    contentJson: content.contentJson,
    skipped: [...skipped],
  };
  return enforceLimits({ list: [...list, revision], activeId, nextId: nextId + 1 });
}

/**
 * Removes the oldest revisions beyond the limits. The active one and the latest startup revision remain: without the
 * latter, the next start would treat an old configuration as a new one.
 */
function enforceLimits(revisions: Revisions): Revisions {
  const retained = new Set([revisions.activeId, latestStartupRevision(revisions)?.id]);
  let count = revisions.list.length;
  let bytes = revisions.list.reduce((sum, revision) => sum + revisionBytes(revision), 0);
  const list = revisions.list.filter((revision) => {
    if ((count <= MAX_REVISIONS && bytes <= MAX_REVISION_BYTES) || retained.has(revision.id)) return true;
    count--;
    bytes -= revisionBytes(revision);
    return false;
  });
  return { ...revisions, list };
}

/** Value of `If-Match`: any active revision, or one of these; 0 means none. */
export type IfMatch = '*' | readonly number[];

/** Precondition of an update; both members must match. */
export interface ExpectedRevision {
  /** 0 for none; undefined for any. */
  readonly expectedRevision: number | undefined;
  /** Undefined for any. */
  readonly ifMatch?: IfMatch | undefined;
}

/** Throws {@link OperationError} CONFLICT if another revision is active than expected; `active` is 0 if none is. */
export function checkExpected({ expectedRevision, ifMatch }: ExpectedRevision, active: number): void {
  if (expectedRevision !== undefined && expectedRevision !== active) throw conflict([expectedRevision], active);
  if (ifMatch === undefined || (ifMatch === '*' ? active !== 0 : ifMatch.includes(active))) return;
  throw conflict(ifMatch === '*' ? [] : ifMatch, active);
}

function conflict(expected: readonly number[], active: number): OperationError {
  const actual = active === 0 ? 'no revision is active' : `revision ${active} is active`;
  const [only, ...others] = expected;
  if (only === undefined || others.length > 0) {
    return new OperationError('CONFLICT', `If-Match does not match: ${actual}`, { active_revision: active });
  }
  return new OperationError('CONFLICT', `expected revision ${only}, but ${actual}`, {
    expected_revision: only,
    active_revision: active,
  });
}

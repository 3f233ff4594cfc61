import { createHash } from 'node:crypto';
import {
  type Evaluator,
  type EvaluatorRevisionContent,
  evaluatorRevisionContent,
  type ValidationIssue,
} from '@sluice/contract';
import { isJsonObject, parseLossless } from '@sluice/protocol/json/parse';

/** The JSON text of a value, the same for all orders of members. Numbers keep their spelling. */
function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  if (!isJsonObject(value)) return JSON.stringify(value);
  const members = Object.keys(value).toSorted();
  return `{${members.map((member) => `${JSON.stringify(member)}:${canonicalJson(value[member])}`).join(',')}}`;
}

/** What tells sets of evaluators apart: the first 16 hex digits of SHA-256 over their canonical JSON (decisions 2.10). */
export function checksumOf(evaluators: readonly unknown[]): string {
  return createHash('sha256').update(canonicalJson(evaluators)).digest('hex').slice(0, 16);
}

/**
 * A set of evaluators that was submitted (decisions 2.10), the evaluators as JSON text: as objects they may take twenty
 * times the memory, and most revisions are never looked at again.
 */
export type Revision = Readonly<Omit<EvaluatorRevisionContent, 'evaluators'>> & {
  /** Without blanks, as it is answered and stored. */
  readonly evaluatorsJson: string;
};

/** What a revision keeps of evaluators. */
export type Content = Pick<Revision, 'evaluatorsJson' | 'checksum'>;

/** What there is to keep of these. */
export function contentOf(evaluators: readonly Evaluator[]): Content {
  return { evaluatorsJson: JSON.stringify(evaluators), checksum: checksumOf(evaluators) };
}

/** The evaluators of a revision, parsed anew each time. Throws for text that is not that of evaluators. */
export function evaluatorsOf({ evaluatorsJson }: Pick<Revision, 'evaluatorsJson'>): Evaluator[] {
  return evaluatorRevisionContent.shape.evaluators.parse(parseLossless(evaluatorsJson));
}

/** What the list of revisions has of one, as JSON. */
export function metadataJson({ evaluatorsJson: _evaluators, skipped: _skipped, ...metadata }: Revision): string {
  return JSON.stringify(metadata);
}

/** All of a revision, as JSON in one line. */
export function revisionJson(revision: Revision): string {
  const { evaluatorsJson, skipped } = revision;
  const metadata = metadataJson(revision).slice(0, -1);
  return `${metadata},"evaluators":${evaluatorsJson},"skipped":${JSON.stringify(skipped)}}`;
}

/** Bytes of {@link revisionJson}, but for the names of two members. */
export function bytesOf(revision: Revision): number {
  const texts = [metadataJson(revision), revision.evaluatorsJson, JSON.stringify(revision.skipped)];
  return texts.reduce((bytes, text) => bytes + Buffer.byteLength(text), 0);
}

/** So many revisions are kept (decisions 8). */
const MOST_REVISIONS = 50;

/** So many bytes of JSON are kept: one may be as large as the body of a request, which would make 50 times that. */
const MOST_BYTES = 16 * 1024 * 1024;

/** All revisions that are kept, and which of them is active. Nothing changes it: a change makes another one. */
export interface Revisions {
  /** Oldest first. */
  readonly list: readonly Revision[];
  /** Undefined when none is active. */
  readonly activeId: number | undefined;
  readonly nextId: number;
}

/** Before anything was submitted. */
export const NO_REVISIONS: Revisions = { list: [], activeId: undefined, nextId: 1 };

/** What is submitted, by whom. */
export interface Submission {
  readonly content: Content;
  readonly origin: Revision['origin'];
  readonly actor: string | undefined;
  /** ISO-8601. */
  readonly at: string;
}

/** The revision that is active. */
export function activeRevision({ list, activeId }: Revisions): Revision | undefined {
  return list.find(({ id }) => id === activeId);
}

/** The newest revision that came from the configuration of the service. */
export function newestOfStartUp({ list }: Pick<Revisions, 'list'>): Revision | undefined {
  return list.findLast(({ origin }) => origin === 'startup');
}

/** With a new revision that is active from now on. `skipped`: names of evaluators that could not be loaded. */
export function withActive(revisions: Revisions, submission: Submission, skipped: readonly string[]): Revisions {
  const revision = revisionOf(revisions, submission, { status: 'active', skipped });
  const list = revisions.list.map((each) => (each.status === 'active' ? superseded(each) : each));
  return added({ ...revisions, list, activeId: revision.id }, revision);
}

/** With a new revision that was refused; what is active stays it. */
export function withRejected(revisions: Revisions, submission: Submission, reason: string): Revisions {
  return added(revisions, revisionOf(revisions, submission, { status: 'rejected', reason }));
}

type Fate =
  | { readonly status: 'active'; readonly skipped: readonly string[] }
  | { readonly status: 'rejected'; readonly reason: string };

function revisionOf({ nextId }: Revisions, { content, origin, actor, at }: Submission, fate: Fate): Revision {
  return {
    id: nextId,
    created_at: at,
    ...(fate.status === 'active' && { activated_at: at }),
    status: fate.status,
    checksum: content.checksum,
    origin,
    ...(actor !== undefined && { actor }),
    ...(fate.status === 'rejected' && { failure_reason: fate.reason }),
    evaluatorsJson: content.evaluatorsJson,
    skipped: fate.status === 'active' ? [...fate.skipped] : [],
  };
}

function superseded(revision: Revision): Revision {
  return { ...revision, status: 'superseded' };
}

function added({ list, activeId }: Revisions, revision: Revision): Revisions {
  return withinLimits({ list: [...list, revision], activeId, nextId: revision.id + 1 });
}

/**
 * Without the oldest where they are too many, or too large together. Besides the active one the newest of the
 * configuration stays: without it, the next start would take an old configuration for a new one.
 */
export function withinLimits(revisions: Revisions): Revisions {
  const stays = new Set([revisions.activeId, newestOfStartUp(revisions)?.id]);
  let count = revisions.list.length;
  let bytes = revisions.list.reduce((sum, revision) => sum + bytesOf(revision), 0);
  const list = revisions.list.filter((revision) => {
    if ((count <= MOST_REVISIONS && bytes <= MOST_BYTES) || stays.has(revision.id)) return true;
    count--;
    bytes -= bytesOf(revision);
    return false;
  });
  return { ...revisions, list };
}

/** Why a change of the evaluators was refused; the management API's codes of the same names (decisions 4.5 and 7). */
export type EvaluatorsErrorCode = 'BAD_REQUEST' | 'NOT_FOUND' | 'CONFLICT' | 'UNPROCESSABLE';

/** What the caller may want to know beyond the message: the members refused, or the revisions that differ. */
export type EvaluatorsErrorDetails = readonly ValidationIssue[] | Readonly<Record<string, number>>;

/** A refused change. It left everything as it was, and its message is fit to be answered. */
export class EvaluatorsError extends Error {
  override readonly name = 'EvaluatorsError';
  readonly code: EvaluatorsErrorCode;
  readonly details: EvaluatorsErrorDetails | undefined;

  constructor(code: EvaluatorsErrorCode, message: string, details?: EvaluatorsErrorDetails) {
    super(message);
    this.code = code;
    this.details = details;
  }
}

/** What a request's `If-Match` names: whichever revision is active, or one of these; 0 stands for none. */
export type IfMatch = '*' | readonly number[];

/** What whoever changes the evaluators believes is active. Of both, both have to hold. */
export interface Expected {
  /** The revision that has to be active, 0 for none; undefined: whatever it is. */
  readonly expectedRevision: number | undefined;
  /** Undefined: whatever it is. */
  readonly ifMatch?: IfMatch | undefined;
}

/** An entity tag of a list, or a place in it without one, to the next comma or the end. */
const ELEMENT = /[ \t]*(?:((?:W\/)?"[\x21\x23-\x7e\x80-\xff]*")[ \t]*)?(,|$)/gy;

/**
 * Reads an `If-Match` (RFC 9110, section 13.1.1); undefined for what is none. Tags that no revision has, weak ones among
 * them, match nothing and are left out.
 */
export function parseIfMatch(header: string): IfMatch | undefined {
  if (header.trim() === '*') return '*';
  const elements = [...header.matchAll(ELEMENT)];
  const tags = elements.map(([, tag]) => tag).filter((tag) => tag !== undefined);
  if (elements.at(-1)?.[2] !== '' || tags.length === 0) return undefined;
  return tags.filter((tag) => /^"(?:0|[1-9]\d{0,14})"$/.test(tag)).map((tag) => Number(tag.slice(1, -1)));
}

/** Throws {@link EvaluatorsError} CONFLICT unless what is expected is active; `active` is 0 when none is. */
export function checkExpected({ expectedRevision, ifMatch }: Expected, active: number): void {
  if (expectedRevision !== undefined && expectedRevision !== active) throw stale([expectedRevision], active);
  if (ifMatch === undefined || (ifMatch === '*' ? active !== 0 : ifMatch.includes(active))) return;
  throw stale(ifMatch === '*' ? [] : ifMatch, active);
}

function stale(expected: readonly number[], active: number): EvaluatorsError {
  const is = active === 0 ? 'none is' : `revision ${active} is`;
  const [only, ...others] = expected;
  if (only === undefined || others.length > 0) {
    const message = `no revision that If-Match names is active, ${is}: read the evaluators again`;
    return new EvaluatorsError('CONFLICT', message, { active_revision: active });
  }
  return new EvaluatorsError('CONFLICT', `revision ${only} is not active, ${is}: read the evaluators again`, {
    expected_revision: only,
    active_revision: active,
  });
}

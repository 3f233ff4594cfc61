import { bytesOf, type Content, type Revision } from './revision.ts';

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

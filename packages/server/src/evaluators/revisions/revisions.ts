import type { Evaluator, EvaluatorRevisionContent } from '@sluice/contract';
import { checksumOf } from './canonical-json.ts';

/** So many revisions are kept (decisions 8). */
const MOST_REVISIONS = 50;

/** A set of evaluators that was submitted (decisions 2.10). */
export type Revision = Readonly<EvaluatorRevisionContent>;

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
  readonly evaluators: readonly Evaluator[];
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
export function newestOfStartUp({ list }: Revisions): Revision | undefined {
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

function revisionOf({ nextId }: Revisions, { evaluators, origin, actor, at }: Submission, fate: Fate): Revision {
  return {
    id: nextId,
    created_at: at,
    ...(fate.status === 'active' && { activated_at: at }),
    status: fate.status,
    checksum: checksumOf(evaluators),
    origin,
    ...(actor !== undefined && { actor }),
    ...(fate.status === 'rejected' && { failure_reason: fate.reason }),
    evaluators: [...evaluators],
    skipped: fate.status === 'active' ? [...fate.skipped] : [],
  };
}

function superseded(revision: Revision): Revision {
  return { ...revision, status: 'superseded' };
}

/**
 * With one more, and without the oldest where there are too many then. Besides the active one the newest of the
 * configuration stays: without it, the next start would take an old configuration for a new one.
 */
function added(revisions: Revisions, revision: Revision): Revisions {
  const list = [...revisions.list, revision];
  const kept = new Set([revisions.activeId, newestOfStartUp({ ...revisions, list })?.id]);
  const tooMany = Math.max(list.length - MOST_REVISIONS, 0);
  const gone = new Set(list.filter(({ id }) => !kept.has(id)).slice(0, tooMany));
  return { ...revisions, list: list.filter((each) => !gone.has(each)), nextId: revision.id + 1 };
}

import { type Evaluator, evaluator } from '@sluice/contract';
import { z } from 'zod';
import type { RevisionKind } from '../registry/store/revisions.ts';

/** Sets of evaluators have revisions. */
export const EVALUATOR_REVISIONS: RevisionKind<Evaluator[]> = {
  what: 'evaluators',
  section: 'evaluator_revisions',
  member: 'evaluators',
  schema: z.array(evaluator),
  components: 'evaluator_actions',
};

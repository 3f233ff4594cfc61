import { z } from 'zod';
import { evaluatorWarning } from '../schemas/evaluators.ts';
import { stateInput, stateResult } from '../schemas/state.ts';
import { defineOperation } from './operation.ts';
import { LOCK_OUT } from './revisions.ts';

const flag = ['true', 'false'] as const;

/** `/api/v1/state`. */
export const stateOperations = {
  apply: defineOperation({
    id: 'applyState',
    method: 'PUT',
    path: '/api/v1/state',
    right: 'change_registry',
    tag: 'state',
    summary: 'Apply a desired state',
    description:
      'Creates, changes and, with `prune`, deletes namespaces, forwards, services, tools and evaluators until they are as described. Sections that are missing stay unchanged. Evaluators and `identity` require the right `administer`. All changes of the registry are one commit: all or nothing. Evaluators have a store of their own: new and changed ones are active before that commit, deleted ones until after it. `identity` is replaced as a whole before that commit. A state that cannot be applied is `UNPROCESSABLE`, with all problems. `If-Match` with the `ETag` of a dry run fails with `CONFLICT` if other changes would be made than those that it has returned. The response is sent when the discoveries of changed forwards have ended, or after 30 seconds. The body may have up to 16 MiB and 20,000 entries.',
    query: {
      dry_run: { description: 'Return the changes without making them (default `false`).', values: flag },
      prune: {
        description:
          'Delete what the sections of the body do not contain, and revert overrides that it does not contain (default `false`).',
        values: flag,
      },
      strict: {
        description:
          'Reject evaluators whose action cannot be loaded, instead of skipping them. The default is `SERVICE_EVALUATORS_STRICT`.',
        values: flag,
      },
      ...LOCK_OUT,
    },
    body: { kind: 'state', schema: stateInput, maxBytes: 16 * 1024 * 1024 },
    responses: {
      200: {
        description: 'The changes, made unless `dry_run` is set. `warnings` is about evaluators',
        data: stateResult,
        warnings: z.array(evaluatorWarning),
        etag: 'Identifies these changes.',
      },
    },
    errors: ['CONFLICT', 'UNPROCESSABLE'],
  }),
};

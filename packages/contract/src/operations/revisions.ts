/** Description of the `ETag` of settings with revisions. */
export const REVISION_ETAG = 'Active revision in quotes; `"0"` if there is none.';

/** Optimistic concurrency by `ETag`. */
export const REVISION_IF_MATCH =
  '`If-Match` with an earlier `ETag` fails with `CONFLICT` if another revision is active, like `expected_revision`; `*` fails if no revision is active. If both are set, both must match.';

/** Whether a caller may give up the right to change the identity again. */
export const LOCK_OUT = {
  lock_out: {
    description:
      'Change the identity even if the caller is no admin by the new settings. Without it, such a change is `UNPROCESSABLE`.',
    values: ['allow'],
  },
} as const;

/** What is wrong with an export `evaluate` that cannot be used: told by a build, and in the log of a run. */

export const ASYNC = 'evaluate must not be async: nothing runs any more once it has returned';
export const NO_FUNCTION = 'the export "evaluate" must be a function';

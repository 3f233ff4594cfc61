/** What the thread of the result schemas is asked; schemas are known by a key. */
export type SchemaJob =
  | { readonly kind: 'compile'; readonly key: string; readonly schema: string }
  | { readonly kind: 'validate'; readonly key: string; readonly text: string };

/**
 * What it answers: `fine` when the schema compiled or the text fits, `refused` when not, with what is wrong; `unknown`
 * when the schema of a text has to be compiled first. `ready` is said once, before all answers.
 */
export type SchemaReply =
  | { readonly kind: 'ready' }
  | { readonly kind: 'fine' }
  | { readonly kind: 'refused'; readonly problem: string }
  | { readonly kind: 'unknown' };

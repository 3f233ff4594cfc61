import type { ModuleHead } from '../host/messages.ts';

/** What the compiling process is told, followed by a frame with the component and one with the WIT. */
export interface CompileRequest {
  readonly kind: 'compile';
}

/** What it answers; `compiled` is followed by a frame with the glue and one for each module. */
export type CompileAnswer =
  | { readonly kind: 'compiled'; readonly modules: readonly ModuleHead[] }
  | { readonly kind: 'refused'; readonly message: string };

import type { ActionFault, ActionLogLevel, ActionResponse } from '../action.ts';

/** A core module of an action, with what its instances may take of the memory of a run. */
export interface ModuleHead {
  readonly name: string;
  /** Pages of 64 KiB. */
  readonly pages: number;
}

/**
 * What the service tells a host process. `load` is followed by a frame with the glue and one for each module, `run` by one
 * with the evaluation context as JSON, `answer`, which answers the last question, by one with its text.
 */
export type ToHost =
  | { readonly kind: 'load'; readonly action: string; readonly modules: readonly ModuleHead[] }
  | { readonly kind: 'run'; readonly action: string }
  | { readonly kind: 'answer' };

/** What an action asks of the service through its host; each is answered before the action goes on. */
export type Question =
  | { readonly ask: 'tools'; readonly namespace?: string }
  | { readonly ask: 'tool'; readonly name: string }
  | { readonly ask: 'copy'; readonly name: string; readonly namespace: string }
  | { readonly ask: 'history'; readonly conversation: string }
  | { readonly ask: 'verify'; readonly raw: string };

/** What a host process tells the service. */
export type FromHost =
  | { readonly kind: 'ready' }
  | { readonly kind: 'loaded' }
  | ({ readonly kind: 'question' } & Question)
  | { readonly kind: 'log'; readonly level: ActionLogLevel; readonly message: string }
  | { readonly kind: 'done'; readonly response?: ActionResponse; readonly ignored: number }
  | { readonly kind: 'failed'; readonly fault: ActionFault; readonly message: string };

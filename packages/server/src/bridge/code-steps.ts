import type { ToolCallErrorCategory } from '@sluice/contract';
import type { Caller } from '../forwards/relay.ts';
import type { Entry, ServiceEntry } from '../registry/entries.ts';
import type { CodeTarget } from './code-uri.ts';

/** A call that has code executed, as far as it is known before it began (decisions 6). */
export interface WatchedCode {
  readonly caller: Caller;
  readonly tool: Entry;
  /** As the tool's uri spells it; undefined when that names none. */
  readonly target: CodeTarget | undefined;
  /** Goes to the service as `x-service-request-id`. */
  readonly requestId: string;
}

/**
 * What becomes of such a call. Each has exactly one `completed` or `failed`, last; one that fails without a `started`
 * had no service or no request that could be built (decisions 6). Whoever watches measures the time.
 */
export type CodeStep =
  | { readonly kind: 'started'; readonly service: ServiceEntry; readonly argumentCount: number }
  /** `content` is what the code put out. */
  | { readonly kind: 'completed'; readonly content: readonly string[] }
  | { readonly kind: 'failed'; readonly category: ToolCallErrorCategory; readonly message: string };

/** Called as a call begins; what it returns is told the call's steps, and must not throw. */
export type WatchCode = (call: WatchedCode) => (step: CodeStep) => void;

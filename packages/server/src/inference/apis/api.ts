import type { JsonObject } from '@sluice/protocol/json/parse';
import type { FieldPaths, FieldTree } from '../answer-fields.ts';
import type { BoundedValues } from '../bounded-values.ts';

/**
 * Description of an API for completions: all that the recorder knows about it. To add one, describe it in a file of its own
 * and list it in `apis.ts`.
 */
export interface CompletionApi {
  /** End of the path of its requests. It decides only where bytes do not. */
  readonly path: string;
  /** Members of a request. */
  readonly request: RequestMembers;
  /** Fields of answers and events, by their paths. */
  readonly fields: FieldPaths;
  /** Whether an event is one of a stream of this API, and of no API listed before. */
  recognizes(event: JsonObject): boolean;
  /** Creates the assembler of one stream. */
  assembler(values: BoundedValues): AnswerAssembler;
}

/** Names of the members of a request that contain the conversation. */
export interface RequestMembers {
  /** Messages, or a text. */
  readonly conversation: string;
  /** Instructions of the system, if they are not a message. */
  readonly instructions?: string;
}

/** Assembles what the official client returns at the end of a stream. Never throws; values beyond the limit are dropped. */
export interface AnswerAssembler {
  add(event: JsonObject): void;
  /** The answer as far as it has arrived. */
  take(): JsonObject;
}

/** An API with its fields as a tree. */
export interface ReadableApi extends CompletionApi {
  readonly tree: FieldTree;
}

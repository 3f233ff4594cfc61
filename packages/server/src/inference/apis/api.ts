import type { JsonObject } from '@sluice/protocol/json/parse';
import type { FieldTree } from '../answer-fields.ts';
import type { BoundedValues } from '../bounded-values.ts';

/**
 * Description of an API for completions: all that the recorder knows about it. To add one, describe it in a file of its own
 * and list it in `apis.ts`.
 */
export interface CompletionApi {
  /** End of the path of its requests. It decides only where bytes do not. */
  readonly path: string;
  /** Names of the members of a request that contain the conversation. */
  readonly request: {
    /** Messages, or a text. */
    readonly conversation: string;
    /** Instructions of the system, if they are not a message. */
    readonly instructions?: string;
  };
  /** Fields of answers and events. */
  readonly fields: FieldTree;
  /** Whether an event is one of a stream of this API, and of no API listed before. */
  recognizes(event: JsonObject): boolean;
  /** Creates the assembler of one stream. */
  assembler(values: BoundedValues): AnswerAssembler;
}

/** Assembles what the official client returns at the end of a stream. Never throws; values beyond the limit are dropped. */
export interface AnswerAssembler {
  add(event: JsonObject): void;
  /** The answer as far as it has arrived. */
  take(): JsonObject;
}

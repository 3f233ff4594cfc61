import { FieldTree } from '../answer-fields.ts';
import type { CompletionApi } from './api.ts';
import { chatCompletions } from './chat-completions.ts';
import { completions } from './completions.ts';
import { messages } from './messages.ts';
import { ollamaChat, ollamaGenerate } from './ollama.ts';
import { responses } from './responses.ts';

/**
 * All APIs whose completions are recorded, in the order in which they recognize events: the chunks of chat completions have the
 * least of their own.
 */
export const APIS: readonly CompletionApi[] = [
  messages,
  responses,
  ollamaChat,
  ollamaGenerate,
  completions,
  chatCompletions,
];

/** Fields of the answers of all APIs. */
export const ALL_FIELDS: FieldTree = new FieldTree(...APIS.map(({ fields }) => fields.paths));

/** The API of a path. */
export function apiOfPath(path: string): CompletionApi | undefined {
  // The path of chat completions ends with that of completions.
  return APIS.findLast((api) => path.endsWith(api.path));
}

/** Names of members that contain messages of a request. */
export const CONVERSATIONS: ReadonlySet<string> = new Set(APIS.map(({ request }) => request.conversation));

/** Names of members with instructions of the system. */
export const INSTRUCTIONS: ReadonlySet<string> = new Set(APIS.flatMap(({ request }) => request.instructions ?? []));

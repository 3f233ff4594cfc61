import { FieldTree } from '../answer-fields.ts';
import type { ReadableApi, RequestMembers } from './api.ts';
import { chatCompletions } from './chat-completions.ts';
import { completions } from './completions.ts';
import { messages } from './messages.ts';
import { ollamaChat, ollamaGenerate } from './ollama.ts';
import { responses } from './responses.ts';

/** In the order in which they recognize events: the chunks of chat completions have the least of their own. */
const ALL = [messages, responses, ollamaChat, ollamaGenerate, completions, chatCompletions];

/** All APIs whose completions are recorded. */
export const APIS: readonly ReadableApi[] = ALL.map((api) => ({ ...api, tree: new FieldTree(api.fields) }));

/** Fields of the answers of all APIs. */
export const ALL_FIELDS: FieldTree = new FieldTree(...ALL.map(({ fields }) => fields));

/** The API of a path. */
export function apiOfPath(path: string): ReadableApi | undefined {
  // The path of chat completions ends with that of completions.
  return APIS.findLast((api) => path.endsWith(api.path));
}

/** Names of members that contain messages of a request. */
export const CONVERSATIONS: ReadonlySet<string> = new Set(ALL.map(({ request }) => request.conversation));

/** Names of members with instructions of the system. */
export const INSTRUCTIONS: ReadonlySet<string> = new Set(
  ALL.flatMap(({ request: { instructions } }: { readonly request: RequestMembers }) => instructions ?? []),
);

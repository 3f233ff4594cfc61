import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import type { BoundedValues } from '../bounded-values.ts';
import type { AnswerAssembler, CompletionApi } from './api.ts';
import { AssembledMembers, objectIn } from './members.ts';
import { OLLAMA_FIELDS } from './ollama.ts';

/** Ollama's API for chats. */
export const ollamaChat: CompletionApi = {
  path: '/api/chat',
  request: { conversation: 'messages' },
  fields: OLLAMA_FIELDS,
  recognizes: ({ done, message }) => typeof done === 'boolean' && isJsonObject(message),
  assembler: (values) => new ChatAssembler(values),
};

const MESSAGE: ReadonlySet<string> = new Set(['message']);

/** Assembles the answer of a stream: the members of its last line, with the whole message. */
class ChatAssembler implements AnswerAssembler {
  readonly #answer: AssembledMembers;
  readonly #message: AssembledMembers;

  constructor(values: BoundedValues) {
    this.#answer = new AssembledMembers(values);
    this.#message = new AssembledMembers(values);
  }

  add(line: JsonObject): void {
    this.#answer.setAll(line, MESSAGE);
    for (const [name, value] of Object.entries(objectIn(line, 'message') ?? {})) {
      if (name === 'role') this.#message.set(name, value);
      else if (typeof value === 'string') this.#message.append(name, value);
      else if (Array.isArray(value)) this.#message.extend(name, value);
      else this.#message.set(name, value);
    }
  }

  take(): JsonObject {
    return { ...this.#answer.take(), message: this.#message.take() };
  }
}
